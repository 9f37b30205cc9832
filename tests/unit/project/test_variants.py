"""The comparison of variants of a host: what it starts, and that it can fail."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from labs.errors import BadInput, Missing
from tests import host_variants
from tests.changed_host import NOT_HERE, NotHere, write
from tests.host_variants import Made, chosen, filled, found_in, judged, order
from tests.variants import OTHER_KEY, REFUSED, File, Variant, absent, layers_of, other_input

BEFORE = Made(Path("before"), "key", {"run.json": "1", "client/ab.txt": "2"})
SAME_RUN = dataclasses.replace(BEFORE, folder=Path("after"))
OTHER_FILE = dataclasses.replace(SAME_RUN, files={"run.json": "1", "client/ab.txt": "3"})
OTHER_INPUT = dataclasses.replace(SAME_RUN, key="other", files={"run.json": "4"})
PLACES = {
    **{"work": "/w", "code": "/c", "kernels": "/k", "python": "/usr/bin/python3", "libs": "/l"},
    "nginx": "/usr/sbin/nginx",
}


def test_variants_are_many_and_each_has_a_name_of_its_own() -> None:
    names = [variant.name for variant in host_variants.VARIANTS]
    assert len(names) == len(set(names)) >= 64
    for variant in host_variants.VARIANTS:
        assert bool(variant.inputs) == (variant.expected == OTHER_KEY), variant.name


def test_variants_change_files_only_in_their_layers_or_their_own_folder() -> None:
    for variant in host_variants.VARIANTS:
        for step in variant.steps:
            if isinstance(step, File):
                folder = os.path.dirname(step.path) or f"{step.path[:-1]}_folder}}"
                allowed = (*variant.layers, "{work}")
                assert folder.startswith(allowed), (variant.name, step.path)


def test_layers_of_are_the_outermost_folders() -> None:
    assert layers_of("/etc/hosts", "/etc/ssl/certs", "/usr/lib/tc") == ("/etc", "/usr/lib")
    assert layers_of("{nginx}", "{libs}/gconv") == ("{libs}", "{nginx_folder}")


def test_order_fills_in_the_paths_of_this_host() -> None:
    variant = Variant(
        "all",
        ("{libs}",),
        (("rm", "{libs}/x"), File("{nginx}", "a {work}", append=True)),
        env={"HOME": None, "OWN": "{work}/home"},
        prefix=("chroot", "{work}/root"),
    )
    asked = order(variant, PLACES, ("nagle",))
    assert asked["layers"] == ["/l"]
    assert asked["steps"] == [
        ["rm", "/l/x"],
        {"path": "/usr/sbin/nginx", "text": "a /w", "append": True, "replaced": None},
    ]
    assert asked["prefix"] == ["chroot", "/w/root"]
    assert asked["argv"] == [
        *("/usr/bin/python3", "/c/one_study.py", "/w/runs", "nagle", *host_variants.WORDS["nagle"])
    ]
    env = asked["env"]
    assert isinstance(env, dict)
    assert "HOME" not in env and env["OWN"] == "/w/home" and env["XDG_CACHE_HOME"] == "/w/cache"


@pytest.mark.parametrize(
    ("after", "kind"),
    [(SAME_RUN, "same"), (OTHER_FILE, "OTHER BYTES"), (OTHER_INPUT, "other key"), (None, "no run")],
)
def test_found_in_tells_keys_and_bytes_apart(after: Made | None, kind: str) -> None:
    assert found_in(BEFORE, after) == kind


def test_judged_fails_other_bytes_under_the_same_key() -> None:
    variant = absent("a file", "/etc/x")
    outcome = judged(variant, {"nagle": BEFORE}, {"nagle": OTHER_FILE}, (0, ""), 1.0)
    assert (outcome.passed, outcome.verdict) == (False, "OTHER BYTES")
    assert outcome.about == "client/ab.txt"
    assert judged(variant, {"nagle": BEFORE}, {"nagle": SAME_RUN}, (0, ""), 1.0).passed


@pytest.mark.parametrize(
    ("named", "passes"), [(("tools.nginx", "seed"), True), (("seed",), False), ((), False)]
)
def test_judged_asks_compare_for_the_input_that_differs(
    named: tuple[str, ...], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_variants, "differing_inputs", lambda one, other: named)
    variant = other_input("nginx", "/usr/sbin/nginx", "tools.nginx")
    outcome = judged(variant, {"nagle": BEFORE}, {"nagle": OTHER_INPUT}, (0, ""), 1.0)
    assert (outcome.passed, outcome.verdict) == (passes, "other key")


def test_judged_fails_a_changed_input_that_no_key_shows() -> None:
    variant = other_input("nginx", "/usr/sbin/nginx", "tools.nginx", labs=("nagle",))
    runs = {"buffers": BEFORE, "nagle": BEFORE}
    after = {"buffers": SAME_RUN, "nagle": SAME_RUN}
    assert not judged(variant, runs, after, (0, ""), 1.0).passed


@pytest.mark.parametrize(
    ("exit_code", "said", "after", "passes"),
    [
        (Missing.exit_code, "nginx is not installed\n", {}, True),
        (1, "nginx is not installed\n", {}, False),
        (Missing.exit_code, "Traceback\nnginx is not installed\n", {}, False),
        (Missing.exit_code, "nginx is not installed\n", {"nagle": SAME_RUN}, False),
    ],
)
def test_judged_wants_a_refusal_in_one_line(
    exit_code: int, said: str, after: dict[str, Made], passes: bool
) -> None:
    variant = dataclasses.replace(absent("nginx", "/usr/sbin/nginx"), expected=REFUSED)
    outcome = judged(variant, {"nagle": BEFORE}, after, (exit_code, said), 1.0)
    assert outcome.passed is passes


def test_judged_fails_a_run_that_is_not_made() -> None:
    variant = absent("a file", "/etc/x")
    outcome = judged(variant, {"nagle": BEFORE}, {}, (4, "a\nthe reason\n"), 1.0)
    assert (outcome.passed, outcome.verdict, outcome.about) == (False, "no run", "the reason")
    outcome = judged(variant, {"nagle": BEFORE}, {}, (NOT_HERE, "no overlay\n"), 1.0)
    assert (outcome.passed, outcome.verdict) == (True, "not possible here")


def test_filled_leaves_unknown_words() -> None:
    assert filled("{libs}/{} {other}", PLACES) == "/l/{} {other}"


def test_chosen_refuses_an_unknown_name() -> None:
    assert [variant.name for variant in chosen(("umask 077",))] == ["umask 077"]
    with pytest.raises(BadInput):
        chosen(("umask 777",))


def test_main_refuses_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Missing):
        host_variants.main(())


def test_write_changes_a_file(tmp_path: Path) -> None:
    file = tmp_path / "below" / "file"
    write(str(file), "one two", replaced=None, append=False)
    assert file.read_text() == "one two"
    write(str(file), "ONE", replaced="one", append=False)
    write(str(file), " three", replaced=None, append=True)
    assert file.read_text() == "ONE two three"
    with pytest.raises(NotHere):
        write(str(file), "x", replaced="four", append=False)


def test_write_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("untouched")
    (tmp_path / "link").symlink_to("other")
    write(str(tmp_path / "link"), "new", replaced=None, append=False)
    assert (tmp_path / "other").read_text() == "untouched"
    assert (tmp_path / "link").read_text() == "new" and not (tmp_path / "link").is_symlink()
