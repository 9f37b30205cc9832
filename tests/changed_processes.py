"""Variants of a host that differ in its folders and devices, and in how a run is started."""

from __future__ import annotations

from tests.variants import File, Variant, mounted, started, with_env

UNLISTED = "54321"
LONG = "/".join(("a folder with a long name",) * 20)

CPUINFO = (
    "processor\t: {n}\nvendor_id\t: GenuineIntel\nmodel name\t: Another processor\n"
    "flags\t\t: fpu tsc msr cx8 cmov mmx fxsr sse sse2 syscall nx lm\n"
    "cache_alignment\t: {alignment}\n\n"
)


def cpuinfo(name: str, alignment: int) -> Variant:
    text = "".join(
        CPUINFO.replace("{n}", str(n)).replace("{alignment}", str(alignment)) for n in range(64)
    )
    steps = (File("{work}/cpuinfo", text), ("mount", "--bind", "{work}/cpuinfo", "/proc/cpuinfo"))
    return Variant(name, steps=steps)


PLACES = (
    mounted("/tmp on a tmpfs", "-t", "tmpfs", "tmpfs", "/tmp"),
    mounted("/dev/shm too small", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/dev/shm"),
    mounted("/dev/shm noexec", "-t", "tmpfs", "-o", "noexec", "tmpfs", "/dev/shm"),
    mounted("/dev/shm read-only", "-t", "tmpfs", "-o", "ro", "tmpfs", "/dev/shm"),
    mounted("/run empty", "-t", "tmpfs", "tmpfs", "/run"),
    mounted("/var/log read-only", "-t", "tmpfs", "-o", "ro", "tmpfs", "/var/log"),
    mounted("/sys absent", "-t", "tmpfs", "tmpfs", "/sys"),
    Variant(
        "home folders empty",
        steps=tuple(("mount", "-t", "tmpfs", "tmpfs", home) for home in ("/home", "/root")),
    ),
    mounted("/proc without other processes", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"),
    cpuinfo("another processor", 64),
    cpuinfo("another processor, cache lines of 128 bytes", 128),
    Variant(
        "/dev with the least",
        steps=(
            ("mkdir", "{work}/dev"),
            ("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "{work}/dev"),
            ("mkdir", "{work}/dev/shm"),
            *(
                step
                for name in ("null", "zero", "random", "urandom")
                for step in (
                    ("touch", "{work}/dev/" + name),
                    ("mount", "--bind", f"/dev/{name}", "{work}/dev/" + name),
                )
            ),
            ("mount", "--rbind", "{work}/dev", "/dev"),
        ),
    ),
    Variant(
        "/dev/random and /dev/urandom constant",
        steps=tuple(
            ("mount", "--bind", "/dev/zero", f"/dev/{name}") for name in ("random", "urandom")
        ),
    ),
    Variant("cache on a tmpfs", steps=(("mount", "-t", "tmpfs", "tmpfs", "{work}/cache"),)),
    Variant("cache in an overlay", ("{work}/cache",)),
    Variant(
        "cache elsewhere, with spaces",
        env={"XDG_CACHE_HOME": "{work}/a folder/of another name, which is rather long/ü"},
    ),
    Variant("HOME elsewhere", env={"HOME": "{work}/home", "XDG_CACHE_HOME": None}),
    Variant("memory on the disk", env={"LABS_MEMORY_DIR": "{work}"}),
    Variant(
        "memory in a folder with a long name",
        steps=(("mkdir", "-p", "{work}/" + LONG),),
        env={"LABS_MEMORY_DIR": "{work}/" + LONG},
    ),
    Variant("working folder with spaces", folder="{work}/a folder", runs="runs of mine/ü"),
    Variant("working folder /", folder="/"),
    started(
        "working folder deleted",
        "sh",
        "-c",
        'd=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$@"',
        "sh",
    ),
    Variant(
        "in a chroot",
        steps=(("mkdir", "{work}/root"), ("mount", "--rbind", "/", "{work}/root")),
        prefix=("chroot", "{work}/root"),
    ),
)

OWN = (("chown", "-R", f"{UNLISTED}:{UNLISTED}", "{work}"),)
UNLISTED_USER = ("setpriv", "--reuid", UNLISTED, "--regid", UNLISTED, "--clear-groups")
USERS = (
    Variant(
        "an unlisted user with a home",
        steps=OWN,
        env={"HOME": "{work}/home", "XDG_CACHE_HOME": None},
        prefix=UNLISTED_USER,
    ),
    Variant("an unlisted user without HOME", steps=OWN, env={"HOME": None}, prefix=UNLISTED_USER),
    Variant(
        "no capabilities",
        prefix=("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
        as_root=True,
    ),
    started("a user namespace", "unshare", "--user", "--map-root-user"),
    started("a PID namespace", "unshare", "--pid", "--fork", "--mount-proc", as_root=True),
    started("a network namespace", "unshare", "--net", as_root=True),
    started("IPC and cgroup namespaces", "unshare", "--ipc", "--cgroup", as_root=True),
    started(
        "a time namespace",
        *("unshare", "--time", "--fork", "--boottime", "100000000", "--monotonic", "90000000"),
        as_root=True,
    ),
)

PROCESS = (
    started("one CPU", "taskset", "-c", "{last_cpu}"),
    started("nice 19", "nice", "-n", "19", "ionice", "-c", "3"),
    started("SCHED_BATCH", "chrt", "--batch", "0"),
    started("stdin closed", "sh", "-c", 'exec "$@" <&-', "sh"),
    started("stdout and stderr closed", "sh", "-c", 'exec "$@" >&- 2>&-', "sh"),
    started("all of stdin, stdout and stderr closed", "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"),
    started("open descriptors", "sh", "-c", 'exec "$@" 3</etc/hosts 5</dev/null 9</dev/null', "sh"),
    started("few descriptors", "prlimit", "--nofile=128", "--sigpending=64", "--memlock=0"),
    started("unlimited stack and core", "prlimit", "--stack=unlimited", "--core=unlimited"),
    started("stack of 1 MiB", "prlimit", "--stack=1048576"),
    started("a session of its own", "setsid", "--wait"),
    started("signals ignored", "env", "--ignore-signal=HUP,INT,QUIT,PIPE,USR1,USR2,WINCH,ALRM"),
    started("SIGCHLD ignored", "env", "--ignore-signal=CHLD"),
    started("signals blocked", "env", "--block-signal=ALRM,VTALRM,PROF,USR1,USR2,WINCH,POLL,CHLD"),
    started("fixed addresses", "setarch", "--addr-no-randomize"),
    started("compatible address layout", "setarch", "--addr-compat-layout"),
    started("readable implies executable", "setarch", "--read-implies-exec"),
    started("a kernel that calls itself 2.6", "setarch", "--uname-2.6"),
    Variant("umask 077", umask=0o077),
    Variant("umask 000", umask=0o000),
)

ENVIRONMENT = (
    with_env("TZ", TZ="Asia/Kathmandu"),
    with_env("LANG and LC_ALL", LANG="tr_TR.UTF-8", LC_ALL="tr_TR.ISO-8859-9", LANGUAGE="tr:de"),
    with_env("LC_ALL=C without UTF-8", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
    with_env(
        "PYTHON*",
        PYTHONOPTIMIZE="2",
        PYTHONHASHSEED="12345",
        PYTHONPYCACHEPREFIX="{work}/pycache",
        PYTHONNODEBUGRANGES="1",
        PYTHONMALLOC="debug",
        PYTHONINTMAXSTRDIGITS="0",
        PYTHONSAFEPATH="1",
        PYTHONPATH="{code}",
    ),
    with_env("PYTHONDEVMODE", PYTHONDEVMODE="1", PYTHONTRACEMALLOC="5"),
    with_env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH="0"),
    Variant(
        "PATH with other tools first",
        steps=tuple(
            step
            for name in ("ip", "tc", "ss", "nginx", "ab", "sh", "taskset", "python3")
            for step in (
                File("{work}/bin/" + name, "#!/bin/false\n"),
                ("chmod", "755", "{work}/bin/" + name),
            )
        ),
        env={"PATH": "{work}/bin:{path}"},
    ),
    with_env("PATH empty", PATH=""),
    with_env(
        "OpenSSL, proxies and other tools' variables",
        OPENSSL_CONF="/nonexistent",
        SSL_CERT_FILE="/nonexistent",
        OPENSSL_ia32cap="~0x200000200000000",
        http_proxy="http://192.0.2.1:3128/",
        NGINX="3;4;",
        TC_LIB_DIR="/nonexistent",
        NSTAT_HISTORY="/nonexistent",
        POSIXLY_CORRECT="1",
        COLUMNS="20",
        TERM="dumb",
    ),
    with_env("100 long variables", **{f"LABS_OTHER_{n}": "x" * 1000 for n in range(100)}),
    with_env("TMPDIR", TMPDIR="{work}/home"),
)

OF_PROCESSES = (*PLACES, *USERS, *PROCESS, *ENVIRONMENT)
