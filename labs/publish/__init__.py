"""The publish room: a notebook with its answers, as a page that anyone can open."""
