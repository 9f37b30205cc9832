/* An HTTP server with one epoll loop per thread, whose ways of waiting can be chosen.
 *
 *     epoll_server --address A --port N [--threads N] [--timeout-ms N] [--busy-poll-us N]
 *                  [--work-us N] [--cpus 0,1,...]
 *
 * Each thread has a listening socket of its own (SO_REUSEPORT), so the kernel distributes
 * connections by a hash. `--timeout-ms 0` polls: epoll_wait(2) returns at once. `--busy-poll-us`
 * sets SO_BUSY_POLL on the sockets and, since Linux 6.9, the same on the epoll instance.
 * `--work-us` spends CPU time on each request. `--cpus` pins thread i to entry i of the list.
 * SIGTERM ends it; it then prints its counters and the settings as read back, as JSON. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "request.h"

enum { MOST_THREADS = 64, EVENTS = 128, BACKLOG = 1024 };

/* 151 bytes, as in the article. */
static const char OK[] = "HTTP/1.1 200 OK\r\n"
                         "Content-Type: text/plain; charset=utf-8\r\n"
                         "Content-Length: 71\r\n\r\n"
                         "the same line of text for every single request, in a total of 151 bytes";
static const char BAD[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
_Static_assert(sizeof OK - 1 == 151, "the response has 151 bytes");

/* include/uapi/linux/eventpoll.h since Linux 6.9; headers of the C library may be older. */
struct busy_parameters {
    uint32_t usecs;
    uint16_t budget;
    uint8_t prefer;
    uint8_t pad;
};
#define SET_BUSY_PARAMETERS _IOW(0x8A, 0x01, struct busy_parameters)
#define GET_BUSY_PARAMETERS _IOR(0x8A, 0x02, struct busy_parameters)
enum { BUSY_BUDGET = 8 };

struct options {
    const char *address;
    long port, threads, timeout_ms, busy_poll_us, work_us;
    long cpus[MOST_THREADS];
    int cpu_count;
};

struct connection {
    int fd;
    size_t filled;
    struct connection *next, *previous;
    char buffer[REQUEST_MOST_BYTES];
};

struct worker {
    const struct options *options;
    pthread_t thread;
    int epoll_fd, listen_fd, stop_fd;
    int cpu;                  /* the CPU to pin it to, or -1; at its end the one it ran on */
    int allowed_cpus;         /* as read back */
    int busy_poll_us;         /* of its listening socket, as read back */
    long epoll_busy_poll_us;  /* of its epoll instance, as read back; -1: not supported */
    unsigned napi_id;         /* of the last connection; 0: its device has none */
    uint64_t accepted, requests, bad, waits, empty_waits;
    struct connection connections;  /* the head of a ring */
};

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void work(long microseconds)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000L + (now.tv_nsec - begin.tv_nsec) / 1000
           < microseconds);
}

static void watch(int epoll_fd, int fd, void *about)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = about};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static void forget(struct connection *one)
{
    one->previous->next = one->next;
    one->next->previous = one->previous;
    close(one->fd);
    free(one);
}

static void accept_all(struct worker *worker)
{
    int fd;
    while ((fd = accept4(worker->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *one = malloc(sizeof *one);
        const int on = 1;
        if (one == NULL) {
            close(fd);
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        one->fd = fd;
        one->filled = 0;
        one->next = &worker->connections;
        one->previous = worker->connections.previous;
        one->previous->next = one;
        one->next->previous = one;
        worker->accepted++;
        watch(worker->epoll_fd, fd, one);
    }
}

/* Send a whole response; false if the client does not read its responses, or has gone. */
static bool answer(int fd, const char *text, size_t length)
{
    return send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

/* Answer the requests in the buffer; false to close the connection. */
static bool serve(struct worker *worker, struct connection *one)
{
    size_t start = 0;
    for (;;) {
        const struct request found = read_request(one->buffer + start, one->filled - start);
        if (found.verdict == REQUEST_INCOMPLETE)
            break;
        if (found.verdict == REQUEST_BAD) {
            worker->bad++;
            answer(one->fd, BAD, sizeof BAD - 1);
            return false;
        }
        if (worker->options->work_us > 0)
            work(worker->options->work_us);
        worker->requests++;
        if (!answer(one->fd, OK, sizeof OK - 1) || found.last)
            return false;
        start += found.length;
    }
    one->filled -= start;
    memmove(one->buffer, one->buffer + start, one->filled);
    return true;
}

static void receive(struct worker *worker, struct connection *one)
{
    const ssize_t count
        = recv(one->fd, one->buffer + one->filled, sizeof one->buffer - one->filled, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (worker->napi_id == 0 && count > 0) {
        socklen_t size = sizeof worker->napi_id;
        getsockopt(one->fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &worker->napi_id, &size);
    }
    if (count > 0)
        one->filled += (size_t)count;
    if (count <= 0 || !serve(worker, one))
        forget(one);
}

static void *loop(void *about)
{
    struct worker *worker = about;
    struct epoll_event events[EVENTS];
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        worker->allowed_cpus = CPU_COUNT(&allowed);
    for (;;) {
        const int count
            = epoll_wait(worker->epoll_fd, events, EVENTS, (int)worker->options->timeout_ms);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        worker->waits++;
        worker->empty_waits += count <= 0;
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &worker->stop_fd) {
                worker->cpu = sched_getcpu();
                return NULL;
            }
            if (events[i].data.ptr == worker)
                accept_all(worker);
            else
                receive(worker, events[i].data.ptr);
        }
    }
}

static int listening(const struct options *options)
{
    const int on = 1, busy = (int)options->busy_poll_us;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("socket");
    if (inet_pton(AF_INET, options->address, &name.sin_addr) != 1) {
        fprintf(stderr, "%s is not an IPv4 address\n", options->address);
        exit(2);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0)
        die("SO_REUSEPORT");
    if (busy > 0 && setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &busy, sizeof busy) < 0)
        die("SO_BUSY_POLL (needs CAP_NET_ADMIN)");
    if (bind(fd, (struct sockaddr *)&name, sizeof name) < 0 || listen(fd, BACKLOG) < 0) {
        fprintf(stderr, "cannot listen on %s:%ld: %s\n", options->address, options->port,
                strerror(errno));
        exit(1);
    }
    return fd;
}

static void set_up(struct worker *worker, const struct options *options, int number, int stop_fd)
{
    struct busy_parameters busy = {.usecs = (uint32_t)options->busy_poll_us,
                                   .budget = BUSY_BUDGET};
    socklen_t size = sizeof worker->busy_poll_us;
    worker->options = options;
    worker->stop_fd = stop_fd;
    worker->connections.next = worker->connections.previous = &worker->connections;
    worker->cpu = options->cpu_count ? (int)options->cpus[number % options->cpu_count] : -1;
    worker->listen_fd = listening(options);
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (worker->epoll_fd < 0)
        die("epoll_create1");
    if (options->busy_poll_us > 0)
        ioctl(worker->epoll_fd, SET_BUSY_PARAMETERS, &busy);
    busy.usecs = 0;
    const bool known = ioctl(worker->epoll_fd, GET_BUSY_PARAMETERS, &busy) == 0;
    worker->epoll_busy_poll_us = known ? (long)busy.usecs : -1;
    getsockopt(worker->listen_fd, SOL_SOCKET, SO_BUSY_POLL, &worker->busy_poll_us, &size);
    watch(worker->epoll_fd, worker->listen_fd, worker);
    watch(worker->epoll_fd, stop_fd, &worker->stop_fd);
}

static void start(struct worker *worker)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (worker->cpu >= 0) {
        cpu_set_t allowed;
        CPU_ZERO(&allowed);
        CPU_SET((size_t)worker->cpu, &allowed);
        pthread_attr_setaffinity_np(&attributes, sizeof allowed, &allowed);
    }
    errno = pthread_create(&worker->thread, &attributes, loop, worker);
    if (errno != 0)
        die("cannot start a thread (are these CPUs there?)");
    pthread_attr_destroy(&attributes);
}

static void finish(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    while (worker->connections.next != &worker->connections)
        forget(worker->connections.next);
    close(worker->listen_fd);
    close(worker->epoll_fd);
}

static long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000L + time.tv_usec;
}

static void report(const struct worker *workers, const struct options *options)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"timeout_ms\": %ld, \"work_us\": %ld, \"user_us\": %ld, \"system_us\": %ld, "
           "\"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"threads\": [",
           options->timeout_ms, options->work_us, microseconds(used.ru_utime),
           microseconds(used.ru_stime), used.ru_nvcsw, used.ru_nivcsw);
    for (const struct worker *one = workers; one < workers + options->threads; one++)
        printf("%s{\"cpu\": %d, \"allowed_cpus\": %d, \"busy_poll_us\": %d, \"epoll_busy_poll_us\": %ld, "
               "\"napi_id\": %u, \"accepted\": %ju, \"requests\": %ju, \"bad\": %ju, "
               "\"waits\": %ju, \"empty_waits\": %ju}",
               one == workers ? "" : ", ", one->cpu, one->allowed_cpus, one->busy_poll_us, one->epoll_busy_poll_us,
               one->napi_id, (uintmax_t)one->accepted, (uintmax_t)one->requests,
               (uintmax_t)one->bad, (uintmax_t)one->waits, (uintmax_t)one->empty_waits);
    printf("]}\n");
}

static long number(const char *name, const char *text, long low, long high)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high) {
        fprintf(stderr, "--%s %s is not allowed. Allowed: %ld to %ld\n", name, text, low, high);
        exit(2);
    }
    return value;
}

static void read_cpus(struct options *options, char *text)
{
    for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        if (options->cpu_count == MOST_THREADS) {
            fprintf(stderr, "--cpus names too many. Allowed: %d\n", MOST_THREADS);
            exit(2);
        }
        options->cpus[options->cpu_count++] = number("cpus", word, 0, CPU_SETSIZE - 1);
    }
}

static void read_options(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {
        {"address", required_argument, NULL, 'a'},  {"port", required_argument, NULL, 'p'},
        {"threads", required_argument, NULL, 't'},  {"timeout-ms", required_argument, NULL, 'w'},
        {"busy-poll-us", required_argument, NULL, 'b'}, {"work-us", required_argument, NULL, 'u'},
        {"cpus", required_argument, NULL, 'c'},     {NULL, 0, NULL, 0},
    };
    int letter, which = 0;
    while ((letter = getopt_long(argc, argv, "", known, &which)) != -1) {
        const char *name = known[which].name;
        switch (letter) {
        case 'a': options->address = optarg; break;
        case 'p': options->port = number(name, optarg, 1, 65535); break;
        case 't': options->threads = number(name, optarg, 1, MOST_THREADS); break;
        case 'w': options->timeout_ms = number(name, optarg, 0, 3600000); break;
        case 'b': options->busy_poll_us = number(name, optarg, 0, 1000000); break;
        case 'u': options->work_us = number(name, optarg, 0, 1000000); break;
        case 'c': read_cpus(options, optarg); break;
        default: exit(2);
        }
    }
    if (options->address == NULL || options->port == 0 || optind < argc) {
        fprintf(stderr, "usage: epoll_server --address A --port N [--threads N] [--timeout-ms N] "
                        "[--busy-poll-us N] [--work-us N] [--cpus 0,1]\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST_THREADS];
    struct options options = {.threads = 1, .timeout_ms = 1000};
    sigset_t ending;
    int signal_number;
    read_options(&options, argc, argv);
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL); /* in every thread; this one waits for them */
    const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0)
        die("eventfd");
    for (int i = 0; i < options.threads; i++)
        set_up(&workers[i], &options, i, stop_fd);
    for (int i = 0; i < options.threads; i++)
        start(&workers[i]);
    sigwait(&ending, &signal_number);
    const uint64_t all = 1;
    if (write(stop_fd, &all, sizeof all) != sizeof all)
        die("eventfd");
    for (int i = 0; i < options.threads; i++)
        finish(&workers[i]);
    close(stop_fd);
    report(workers, &options);
    return 0;
}
