"""The testbed room: two hosts, perhaps a router, and the link between them."""
