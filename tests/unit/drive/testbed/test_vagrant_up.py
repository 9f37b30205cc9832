"""The states of the machines, as Vagrant reports them; and the Vagrantfile, read by Vagrant."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labs.drive.testbed import diagnosis
from labs.drive.testbed import vagrant_up as machines_up
from labs.drive.testbed.vagrant_up import States, next_step, read_states
from labs.errors import Missing

ROOT = Path(__file__).parents[4]
# `vagrant status --machine-readable` of Vagrant 2.3.4, the client halted.
STATUS = (Path(__file__).parents[3] / "fixtures" / "vagrant" / "status-half-up.txt").read_text()


def test_read_states_of_vagrant_status() -> None:
    assert read_states(STATUS) == {"server": "running", "client": "shutoff"}
    assert read_states("") == {}


@pytest.mark.parametrize(
    ("server", "client", "step"),
    [
        ("running", "running", ""),
        ("running", "not created", "vagrant up client"),
        ("shutoff", "running", "vagrant up server"),
        ("not created", "not created", "vagrant up"),
    ],
)
def test_next_step_is_a_command(
    server: str, client: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_BOX", "a box")
    found = States({"server": server, "client": client})
    assert next_step(found) == step
    assert found.up == (step == "")


@pytest.mark.parametrize(
    ("server", "client", "summary"),
    [
        ("running", "shutoff", "server is running, client is shutoff"),
        ("running", "not created", "server is running, client does not exist"),
        ("not created", "not created", "the virtual machines do not exist yet"),
    ],
)
def test_states_summary_is_one_clause(server: str, client: str, summary: str) -> None:
    assert States({"server": server, "client": client}).summary == summary


def test_folder_is_that_of_the_vagrantfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert machines_up.folder() == ROOT


def test_next_step_builds_the_box_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines_up, "folder", lambda: tmp_path)
    monkeypatch.delenv("LAB_BOX", raising=False)
    monkeypatch.delenv("LAB_BOX_URL", raising=False)
    absent = States(dict.fromkeys(machines_up.NAMES, machines_up.ABSENT))
    assert next_step(absent) == "make box && vagrant up"
    (tmp_path / "vagrant" / "boxes").mkdir(parents=True)
    (tmp_path / "vagrant" / "boxes" / "bookworm-libvirt.json").write_text("{}")
    assert next_step(absent) == "vagrant up"


def test_reach_of_absent_machines_does_not_start_vagrant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines_up, "folder", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing) as caught:
        machines_up.reach()
    assert str(caught.value) == (
        "the virtual machines do not exist yet. Run: make box && vagrant up"
    )


def test_diagnosis_without_vagrant_names_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = diagnosis.vagrant()
    assert not check.ok and "vagrant" in check.next_step


needs_vagrant = pytest.mark.skipif(
    shutil.which("vagrant") is None, reason="vagrant is not installed"
)


RUBY_PROVIDER = ("ruby", "-e", 'require "vagrant"; require "vagrant-libvirt"')


def provider_is_known() -> bool:
    """Whether Debian's vagrant-libvirt is installed, which tests of virtual machines need."""
    return (
        shutil.which("ruby") is not None
        and subprocess.run(RUBY_PROVIDER, capture_output=True, timeout=60).returncode == 0
    )


def validate(tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Let Vagrant read the Vagrantfile, with nothing of the user's own.

    Vagrant refuses to validate without a provider. Where none is installed the providers' own
    blocks are left out; `make test-vm` installs libvirt's, and then they are validated too.
    """
    keep = {
        **os.environ,
        "VAGRANT_HOME": str(tmp_path / "home"),
        "VAGRANT_DOTFILE_PATH": str(tmp_path / "machines"),
        "VAGRANT_CHECKPOINT_DISABLE": "1",
    }
    without = () if provider_is_known() else ("--ignore-provider",)
    return subprocess.run(
        ("vagrant", "validate", *without),
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**keep, **settings},
        timeout=120,
    )


@needs_vagrant
def test_vagrantfile_is_valid(tmp_path: Path) -> None:
    done = validate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "validated successfully" in done.stdout


def in_ruby(script: str, tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a script that uses Vagrant's own code, which is a library of Debian's Ruby."""
    if not provider_is_known():
        pytest.skip(
            "vagrant or vagrant-libvirt is not a library of this machine's Ruby: setup/system.sh vm"
        )
    keep = {
        **os.environ,
        "VAGRANT_HOME": str(tmp_path / "home"),
        "VAGRANT_DOTFILE_PATH": str(tmp_path / "machines"),
    }
    return subprocess.run(
        ("ruby", "-e", script),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**keep, **settings},
    )


@needs_vagrant
def test_vagrantfile_reads_box_processors_and_memory_from_the_environment(tmp_path: Path) -> None:
    script = """
        require "vagrant"
        one = Vagrant::Environment.new.machine(:client, :libvirt)
        puts one.config.vm.box, one.config.vm.box_url, one.provider_config.cpus,
             one.provider_config.memory
    """
    settings = {"LAB_BOX": "mine/box", "LAB_BOX_URL": "file:///mine.box"}
    done = in_ruby(script, tmp_path, **settings, LAB_CPUS="3", LAB_MEM="1024")
    assert done.stdout.split() == ["mine/box", "file:///mine.box", "3", "1024"], done.stderr


@needs_vagrant
def test_vagrantfile_reads_the_devices_of_the_server(tmp_path: Path) -> None:
    """The devices of server and client: on the private network, and on the way in."""
    script = """
        require "vagrant"
        %w[virtio e1000e].product(%i[server client]).each do |nic, name|
          ENV["LAB_NIC"] = nic
          made = Vagrant::Environment.new.machine(name, :libvirt).provider_config
          of_way_in = made.qemu_args.map { |one| one[:value] }.grep(/netdev=wayin/).first
          puts "#{made.nic_model_type} #{of_way_in.split(',').first}"
        end
    """
    done = in_ruby(script, tmp_path)
    virtio, e1000e = "virtio virtio-net-pci", "e1000e e1000e"
    assert done.stdout.splitlines() == [virtio, virtio, e1000e, virtio], done.stderr


@needs_vagrant
@pytest.mark.parametrize(
    ("name", "value"),
    [("LAB_RELEASE", "sid"), ("LAB_CPUS", "0"), ("LAB_MEM", "2G"), ("LAB_SSH_PORT", "22")],
)
def test_vagrantfile_refuses_an_invalid_setting(tmp_path: Path, name: str, value: str) -> None:
    done = validate(tmp_path, **{name: value})
    assert done.returncode != 0
    assert f"{name} is '{value}'; allowed: " in done.stderr
