"""Variants of a host that differ in its files, those of the run's inputs last."""

from __future__ import annotations

from tests.variants import (
    OTHER_KEY,
    REFUSED,
    WITH_NGINX,
    File,
    Variant,
    absent,
    holds,
    layers_of,
    mounted,
    other_input,
    with_env,
)

# The loader sorts the folders of its configuration; this file comes first.
FIRST = "/etc/ld.so.conf.d/000-first.conf"
MANY_ACCOUNTS = "".join(f"user{n}:x:{20000 + n}:{20000 + n}::/:/bin/sh\n" for n in range(5000))
MANY_GROUPS = "".join(f"group{n}:x:{20000 + n}:\n" for n in range(5000))
MANY_SERVICES = "".join(f"service{n}\t{n}/tcp\n" for n in range(1, 9000))
MANY_HOSTS = "".join(f"10.77.{n // 250}.{n % 250} machine{n}\n" for n in range(5000))

# Preloaded by every program of the host, and by the kernel that is booted on it.
GREEDY = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
__attribute__((constructor)) static void begin(void)
{
    memset(malloc(100000), 1, 100000);
    memset(malloc(50 << 20), 1, 50 << 20);
    mmap(0, 1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int n = 0; n < 5; n++)
        open("/dev/null", O_RDONLY | O_CLOEXEC);
}
"""
LATER = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define TEN_YEARS 315576000
int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && clock == CLOCK_REALTIME)
        at->tv_sec += TEN_YEARS;
    return failed;
}
int gettimeofday(struct timeval *at, void *zone)
{
    int failed = syscall(SYS_gettimeofday, at, zone);
    at->tv_sec += TEN_YEARS;
    return failed;
}
time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
"""


def preloaded(name: str, source: str) -> Variant:
    """Every program loads a library made from this source."""
    steps = (
        File("{work}/preloaded.c", source),
        (
            "env",
            "TMPDIR={work}",
            "gcc",
            "-shared",
            "-fPIC",
            "-o",
            "{work}/preloaded.so",
            "{work}/preloaded.c",
        ),
        File("/etc/ld.so.preload", "{work}/preloaded.so\n"),
    )
    return Variant(name, ("/etc",), steps)


LOADER = (
    preloaded("ld.so.preload: a library that takes memory and descriptors", GREEDY),
    preloaded("ld.so.preload: a library that moves the clock by ten years", LATER),
    holds("ld.so.preload: a library", "/etc/ld.so.preload", "{libs}/libanl.so.1\n"),
    holds("ld.so.preload: a library of the run", "/etc/ld.so.preload", "{crypto}\n"),
    holds("ld.so.preload: an absent library", "/etc/ld.so.preload", "/lib/none.so\n"),
    absent("ld.so.cache absent", "/etc/ld.so.cache"),
    holds("ld.so.cache damaged", "/etc/ld.so.cache", "not a cache\n" * 100),
    Variant(
        "ld.so.cache larger",
        ("/etc", "/var/cache"),
        (
            ("mkdir", "{work}/libs"),
            ("cp", "{libs}/libanl.so.1", "{libs}/libBrokenLocale.so.1", "{work}/libs"),
            File(FIRST, "{work}/libs\n"),
            ("ldconfig", "-X"),
        ),
    ),
    absent("ld.so.conf absent", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    Variant(
        "libraries in another folder",
        ("/etc", "/var/cache"),
        (
            ("mkdir", "{work}/libs"),
            ("cp", "{pcre}", "{crypto}", "{ssl}", "{work}/libs"),
            File(FIRST, "{work}/libs\n"),
            ("ldconfig", "-X"),
        ),
    ),
    Variant(
        "libraries for a newer processor",
        ("/etc", "/var/cache", "{libs}"),
        (
            ("mkdir", "-p", "{libs}/glibc-hwcaps/x86-64-v2"),
            ("cp", "{pcre}", "{crypto}", "{ssl}", "{libs}/glibc-hwcaps/x86-64-v2"),
            ("ldconfig", "-X"),
        ),
    ),
    Variant(
        "LD_LIBRARY_PATH with another library",
        steps=(
            ("mkdir", "{work}/libs"),
            ("cp", "{pcre}", "{crypto}", "{work}/libs"),
            ("truncate", "-s", "+1", "{work}/libs/{crypto_name}"),
        ),
        env={"LD_LIBRARY_PATH": "{work}/libs"},
    ),
    with_env("LD_PRELOAD", LD_PRELOAD="{libs}/libanl.so.1"),
    with_env(
        "LD_BIND_NOW, GLIBC_TUNABLES, MALLOC_*",
        LD_BIND_NOW="1",
        GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-AVX512F:glibc.malloc.tcache_count=0",
        MALLOC_PERTURB_="165",
        MALLOC_ARENA_MAX="1",
    ),
    absent("gconv absent", "{libs}/gconv"),
    absent("NSS modules absent", "{libs}/libnss_files.so.2", "{libs}/libnss_dns.so.2"),
)

ETC = (
    absent("localtime absent", "/etc/localtime"),
    Variant(
        "localtime of another zone",
        ("/etc",),
        (("ln", "-sfn", "/usr/share/zoneinfo/Asia/Kathmandu", "/etc/localtime"),),
    ),
    holds("localtime damaged", "/etc/localtime", "TZif\n"),
    absent("zoneinfo absent", "/usr/share/zoneinfo"),
    absent("locales absent", "/usr/share/locale", "/usr/lib/locale", "/usr/share/i18n"),
    absent("openssl.cnf absent", "/etc/ssl/openssl.cnf"),
    Variant(
        "openssl.cnf with comments",
        ("/etc/ssl",),
        (File("/etc/ssl/openssl.cnf", "# a comment\n" * 200, append=True),),
    ),
    holds(
        "openssl.cnf with other content",
        "/etc/ssl/openssl.cnf",
        "openssl_conf = here\n[here]\nssl_conf = ssl\n[ssl]\nsystem_default = set\n[set]\n"
        "MinProtocol = TLSv1.3\nCipherString = DEFAULT@SECLEVEL=3\n",
    ),
    holds("openssl.cnf damaged", "/etc/ssl/openssl.cnf", "[broken\n= =\n"),
    absent("certificates absent", "/etc/ssl/certs", "/etc/ssl/private"),
    absent("/usr/lib/ssl absent", "/usr/lib/ssl"),
    absent("OpenSSL modules absent", "{libs}/ossl-modules", "{libs}/engines-3"),
    absent("nsswitch.conf absent", "/etc/nsswitch.conf"),
    holds(
        "nsswitch.conf other",
        "/etc/nsswitch.conf",
        "passwd: compat systemd\ngroup: compat\nhosts: dns files myhostname\nservices: db files\n",
    ),
    absent("passwd and group absent", "/etc/passwd", "/etc/group", "/etc/shadow"),
    Variant(
        "passwd and group larger",
        ("/etc",),
        (
            File("/etc/passwd", MANY_ACCOUNTS, append=True),
            File("/etc/group", MANY_GROUPS, append=True),
        ),
    ),
    Variant(
        "other ids for www-data and tcpdump",
        ("/etc",),
        (
            File(
                "/etc/passwd", "root:x:0:0::/:/bin/sh\nwww-data:x:777:778::/:\ntcpdump:x:9:9::/:\n"
            ),
            File("/etc/group", "root:x:0:\nwww-data:x:778:\ntcpdump:x:9:\n"),
        ),
    ),
    absent("hosts absent", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    holds("hosts larger", "/etc/hosts", MANY_HOSTS),
    absent("resolv.conf absent", "/etc/resolv.conf"),
    holds(
        "resolv.conf other",
        "/etc/resolv.conf",
        "nameserver 192.0.2.1\nsearch a.example b.example\noptions timeout:30 attempts:5\n",
    ),
    absent(
        "services and protocols absent",
        *("/etc/services", "/etc/protocols", "/etc/networks", "/etc/ethertypes", "/etc/rpc"),
    ),
    holds("services larger", "/etc/services", MANY_SERVICES),
    holds("services other", "/etc/services", "elsewhere 80/tcp\nhttp 8080/tcp\n"),
    holds("protocols other", "/etc/protocols", "mine 6 MINE\ntcp 99 TCP\n"),
    absent(
        "iproute2 settings absent", *("/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2")
    ),
    Variant(
        "iproute2 settings other",
        ("/etc",),
        (
            File("/etc/iproute2/rt_tables", "255 here\n254 there\n"),
            File("/etc/iproute2/rt_protos", "2 mine\n"),
            File("/etc/iproute2/rt_scopes", "253 near\n"),
            File("/etc/iproute2/group", "0 everybody\n"),
        ),
    ),
    absent("/usr/lib/tc absent", "/usr/lib/tc"),
    Variant(
        "/usr/lib/tc other",
        ("/usr/lib",),
        (("mkdir", "-p", "/usr/lib/tc"), File("/usr/lib/tc/normal.dist", "0 0 0\n")),
    ),
    absent("/etc/nginx absent", "/etc/nginx", "/usr/share/nginx", "/var/lib/nginx"),
    holds("/etc/nginx damaged", "/etc/nginx/nginx.conf", "no such directive;\n"),
    Variant(
        "/etc/wgetrc and ~/.wgetrc",
        ("/etc",),
        (
            File("/etc/wgetrc", "http_proxy = http://192.0.2.1:3128/\nuse_proxy = on\n"),
            File("{work}/home/.wgetrc", "limit_rate = 1k\n"),
        ),
        env={"HOME": "{work}/home"},
    ),
    Variant(
        "hostname",
        ("/etc",),
        (File("/etc/hostname", "a-long-name-of-a-host-far-away\n"),),
        prefix=("unshare", "--uts", "sh", "-c", 'hostname another-name && exec "$@"', "sh"),
    ),
    absent(
        "machine-id and os-release absent",
        *("/etc/machine-id", "/etc/os-release", "/usr/lib/os-release", "/etc/debian_version"),
    ),
    Variant(
        "shell profiles",
        ("/etc",),
        tuple(
            File(f"/etc/{name}", "exit 1\n") for name in ("profile", "bash.bashrc", "environment")
        ),
        env={"ENV": "/etc/profile", "BASH_ENV": "/etc/profile"},
    ),
    Variant(
        "krb5.conf, mime.types and SELinux settings",
        ("/etc",),
        (
            File("/etc/krb5.conf", "[libdefaults]\ndefault_realm = EXAMPLE.ORG\n"),
            File("/etc/mime.types", "text/other html\n"),
            File("/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=targeted\n"),
        ),
    ),
    absent("terminfo absent", "/etc/terminfo", "/usr/lib/terminfo", "/usr/share/terminfo"),
    Variant(
        "all of /etc absent, but what the standard library links to",
        steps=(
            ("mkdir", "{work}/etc"),
            ("cp", "-a", "/etc/{stdlib_name}", "{work}/etc"),
            ("mount", "--bind", "{work}/etc", "/etc"),
        ),
    ),
    mounted("all of /usr/share absent", "-t", "tmpfs", "tmpfs", "/usr/share"),
)

TREES = ("{stdlib}", "/usr/lib/python3", "/usr/local/lib")
LIBRARY = (
    Variant(
        "standard library without __pycache__",
        ("{stdlib}",),
        (("find", "{stdlib}", "-name", "__pycache__", "-prune", "-exec", "rm", "-rf", "{}", "+"),),
    ),
    Variant(
        "standard library with stale __pycache__",
        ("{stdlib}",),
        (
            (
                "find",
                "{stdlib}",
                "-name",
                "*.py",
                "-type",
                "f",
                "-exec",
                "touch",
                "-d",
                "2001-01-01",
                "{}",
                "+",
            ),
        ),
    ),
    Variant(
        "standard library with damaged __pycache__",
        ("{stdlib}",),
        (("find", "{stdlib}", "-name", "*.pyc", "-exec", "truncate", "-s", "10", "{}", "+"),),
    ),
    absent("tests and idlelib absent", "{stdlib}/test", "{stdlib}/idlelib", "{stdlib}/lib2to3"),
    Variant(
        "site packages that change every start",
        TREES[1:],
        (
            File("/usr/lib/python3/dist-packages/labs_other.pth", "import this\n"),
            File("/usr/local/lib/{stdlib_name}/dist-packages/usercustomize.py", "x = 1\n"),
            File("/usr/local/lib/{stdlib_name}/dist-packages/json.py", "raise SystemExit(1)\n"),
        ),
    ),
    other_input("a module with one more line", "{stdlib}/textwrap.py", "tools.python3-modules"),
    Variant(
        "a new module",
        ("{stdlib}",),
        (File("{stdlib}/labs_other.py", "x = 1\n"),),
        expected=OTHER_KEY,
        inputs=("tools.python3-modules",),
    ),
    Variant(
        "a module behind a broken link",
        ("{stdlib}",),
        (("ln", "-sf", "/nonexistent", "{stdlib}/antigravity.py"),),
        expected=OTHER_KEY,
        inputs=("tools.python3-modules",),
    ),
    Variant(
        "a module absent",
        ("{stdlib}",),
        (("rm", "-rf", "{stdlib}/xmlrpc"),),
        expected=OTHER_KEY,
        inputs=("tools.python3-modules",),
    ),
)


INPUTS = (
    other_input("another nginx", "{nginx}", "tools.nginx", labs=WITH_NGINX),
    Variant(
        "another version of nginx",
        layers_of("{nginx}"),
        (File("{nginx}", "nginx/{other_version}", replaced="nginx/{nginx_version}"),),
        expected=OTHER_KEY,
        inputs=("tools.nginx",),
        labs=WITH_NGINX,
    ),
    other_input("another ip", "{ip}", "tools.ip"),
    other_input("another tc", "{tc}", "tools.tc"),
    other_input("another ss", "{ss}", "tools.ss"),
    other_input("another truncate", "{truncate}", "tools.truncate"),
    other_input("another ab", "{ab}", "tools.ab", labs=("nagle",)),
    other_input(
        "another tcpdump", "{tcpdump}", "tools.tcpdump", labs=("nagle", "sweeps", "windows")
    ),
    other_input("another iperf3", "{iperf3}", "tools.iperf3", labs=("sweeps",)),
    other_input("another ethtool", "{ethtool}", "tools.ethtool", labs=("windows",)),
    other_input("another interpreter", "{python}", "tools.python3"),
    other_input("another libc", "{libc}", "libraries.libc.so.6"),
    other_input("another loader", "{loader}", "libraries.{loader_name}"),
    other_input("another libcrypto", "{crypto}", "libraries.{crypto_name}"),
    other_input("another extension module", "{extension}", "tools.python3-modules"),
    Variant(
        "another libcrypto for a newer processor",
        ("/etc", "/var/cache", "{libs}"),
        (
            ("mkdir", "-p", "{libs}/glibc-hwcaps/x86-64-v2"),
            ("cp", "{crypto}", "{libs}/glibc-hwcaps/x86-64-v2"),
            ("truncate", "-s", "+1", "{libs}/glibc-hwcaps/x86-64-v2/{crypto_name}"),
            ("ldconfig", "-X"),
        ),
        expected=OTHER_KEY,
        inputs=("libraries.{crypto_name}",),
    ),
    Variant(
        "another kernel",
        env={"LABS_KERNELS": "{other_kernels}"},
        expected=OTHER_KEY,
        inputs=("kernel.digest",),
    ),
    other_input("other code of the testbed", "{code}/labs/guest/bench.py", "code", layer="{code}"),
    other_input(
        "another first process", "{code}/labs/guest/programs/init.py", "guest", layer="{code}"
    ),
    other_input(
        "another experiment",
        "{code}/labs/experiments/nagle/experiment.py",
        "code",
        labs=("nagle",),
        layer="{code}",
    ),
    Variant("another interpreter starts the runs", python="{other_python}"),
    Variant(
        "no python3 of the system",
        ("/usr/bin",),
        (("rm", "/usr/bin/python3"),),
        python="{other_python}",
        expected=OTHER_KEY,
        inputs=("tools.python3",),
    ),
    Variant("nginx absent", layers_of("{nginx}"), (("rm", "{nginx}"),), expected=REFUSED),
    Variant("libcrypto absent", ("{libs}",), (("rm", "{crypto}"),), expected=REFUSED),
)

NO_INPUTS = (
    Variant(
        "other code that reads",
        ("{code}",),
        tuple(
            File("{code}/labs/" + name, "# a comment\n", append=True)
            for name in ("read/lab.py", "cli/run.py", "studies/study.py", "launch/launch.py")
        ),
    ),
    Variant(
        "nginx in another folder", ("/usr/sbin", "/usr/bin"), (("mv", "{nginx}", "/usr/bin/nginx"),)
    ),
    Variant(
        "nginx behind links",
        ("/usr/sbin", "/usr/lib"),
        (
            ("mv", "{nginx}", "/usr/lib/nginx-of-another-name"),
            ("ln", "-s", "/usr/lib/nginx-of-another-name", "/usr/lib/nginx-link"),
            ("ln", "-s", "../lib/nginx-link", "{nginx}"),
        ),
    ),
    Variant(
        "modes and times of programs and libraries",
        ("/usr/sbin", "/usr/bin", "{libs}"),
        (
            ("chmod", "700", "{nginx}", "{ip}", "{tc}", "{ab}"),
            ("touch", "-d", "2001-01-01", "{nginx}", "{ip}", "{tc}", "{libc}", "{crypto}"),
        ),
    ),
    Variant("bash as sh", ("/usr/bin",), (("ln", "-sf", "bash", "/usr/bin/sh"),)),
    Variant(
        "programs that no run starts",
        ("/usr/bin",),
        tuple(
            File(f"/usr/bin/{name}", "#!/bin/false\n")
            for name in ("wget", "httping", "curl", "awk")
        ),
    ),
)

OF_FILES = (*LOADER, *ETC, *LIBRARY, *INPUTS, *NO_INPUTS)
