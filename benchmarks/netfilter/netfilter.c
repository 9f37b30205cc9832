/* The only program of the benchmark's machine: a server with an epoll loop and a client, on one CPU over the
 * loopback device. It prints the instructions per request of each round: with `-icount shift=0`, QEMU's time
 * stamp counter counts instructions. `table` as an argument of the kernel first asks for iptables' table
 * `filter`, which registers its hooks, without a rule. */
#include <arpa/inet.h>
#include <linux/netfilter_ipv4/ip_tables.h> /* and struct ifreq */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sizes are the article's. Caches of the kernel's allocator settle in the first rounds. */
enum { PORT = 8080, REQUEST_BYTES = 44, RESPONSE_BYTES = 151, REQUESTS = 500 };
enum { WARM_UP_ROUNDS = 10, ROUNDS = 20, LOOPS = 1000000 };

static void check(int ok, const char *what)
{
    if (ok)
        return;
    printf("failed,%s\n", what);
    reboot(RB_AUTOBOOT);
}

static unsigned long instructions(void)
{
    unsigned low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (unsigned long)high << 32 | low;
}

/* Counts per loop of two instructions: 2 if the counter counts instructions. */
static double per_loop(void)
{
    unsigned long left = LOOPS, before = instructions();
    __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(left));
    return (double)(instructions() - before) / LOOPS;
}

static void loopback_up(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    check(ioctl(control, SIOCSIFFLAGS, &lo) == 0, "lo");
    close(control);
}

static void register_hooks(void)
{
    struct ipt_getinfo info = {.name = "filter"};
    socklen_t length = sizeof info;
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    check(getsockopt(raw, IPPROTO_IP, IPT_SO_GET_INFO, &info, &length) == 0, "table filter");
    printf("hooks,%x\n", info.valid_hooks);
    close(raw);
}

static void serve(int listening)
{
    char data[RESPONSE_BYTES] = {0};
    struct epoll_event event = {.events = EPOLLIN};
    int ready = epoll_create1(0), connection = accept(listening, NULL, NULL);
    check(epoll_ctl(ready, EPOLL_CTL_ADD, connection, &event) == 0, "epoll_ctl");
    for (;;) {
        epoll_wait(ready, &event, 1, 1000);
        check(read(connection, data, sizeof data) == REQUEST_BYTES, "request");
        check(write(connection, data, RESPONSE_BYTES) == RESPONSE_BYTES, "response");
    }
}

int main(int argc, char **argv)
{
    char data[RESPONSE_BYTES] = {0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setvbuf(stdout, NULL, _IONBF, 0);
    loopback_up();
    if (argc > 1 && strcmp(argv[1], "table") == 0)
        register_hooks();
    int listening = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listening, (struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(listen(listening, 1) == 0, "listen");
    if (fork() == 0)
        serve(listening);
    check(connect(client, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    printf("loop,%.3f\n", per_loop());
    for (int round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
        unsigned long before = instructions();
        for (int i = 0; i < REQUESTS; i++) {
            check(write(client, data, REQUEST_BYTES) == REQUEST_BYTES, "request");
            check(read(client, data, sizeof data) == RESPONSE_BYTES, "response");
        }
        unsigned long took = instructions() - before;
        if (round >= WARM_UP_ROUNDS)
            printf("round,%.1f\n", (double)took / REQUESTS);
    }
    reboot(RB_AUTOBOOT);
}
