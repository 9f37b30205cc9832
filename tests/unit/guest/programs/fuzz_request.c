/* A fuzz of the request reader: mutated requests, each in a buffer of exactly its size.
 *
 * The same seed gives the same inputs. AddressSanitizer reports a read beyond the buffer. Checked
 * besides: a complete request is within the buffer and ends with an empty line, and a reader that
 * gets the bytes one by one says the same as one that gets all of them. */
#include <stdio.h>
#include <stdlib.h>

#include "request.h"

enum { SEEDS = 6, MOST = 5000 };

static const char *const seeds[SEEDS] = {
    "GET /data HTTP/1.1\r\nHost: 10.77.0.1:8080\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nConnection: close\r\nAccept: */*\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
};
static const char pieces[] = "\r\n\r\n: \t/GETHP1.0\x00\x7f\xff";

static unsigned long state;

static unsigned long chance(unsigned long below)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (state >> 33) % below;
}

static size_t mutated(char *into)
{
    const char *seed = seeds[chance(SEEDS)];
    size_t length = strlen(seed);
    memcpy(into, seed, length);
    for (unsigned long changes = chance(6); changes > 0; changes--) {
        const size_t at = chance(length + 1);
        switch (chance(4)) {
        case 0: /* one byte is another one */
            if (at < length)
                into[at] = pieces[chance(sizeof pieces)];
            break;
        case 1: /* cut */
            length = at;
            break;
        case 2: /* a byte is inserted, many times */
            for (unsigned long times = chance(10) == 0 ? chance(4200) : 1;
                 times > 0 && length < MOST; times--) {
                memmove(into + at + 1, into + at, length - at);
                into[at] = chance(2) ? 'a' : pieces[chance(sizeof pieces)];
                length++;
            }
            break;
        default: /* any byte */
            if (at < length)
                into[at] = (char)chance(256);
        }
    }
    return length;
}

static void check(const char *text, size_t length)
{
    char *exact = malloc(length ? length : 1);
    memcpy(exact, text, length);
    const struct request whole = read_request(exact, length);
    if (whole.verdict == REQUEST_COMPLETE
        && (whole.length > length || whole.length > REQUEST_MOST_BYTES
            || memcmp(exact + whole.length - 4, "\r\n\r\n", 4) != 0))
        abort();
    for (size_t some = 0; some < length; some += 1 + length / 64) {
        const struct request early = read_request(exact, some);
        if (early.verdict != REQUEST_INCOMPLETE && early.verdict != whole.verdict)
            abort();
        if (early.verdict == REQUEST_COMPLETE && early.length != whole.length)
            abort();
    }
    free(exact);
}

int main(int argc, char **argv)
{
    static char text[MOST + 1];
    const unsigned long inputs = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    unsigned long found[3] = {0, 0, 0};
    state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    for (unsigned long i = 0; i < inputs; i++) {
        const size_t length = mutated(text);
        check(text, length);
        found[read_request(text, length).verdict]++;
    }
    printf("%lu %lu %lu\n", found[REQUEST_INCOMPLETE], found[REQUEST_COMPLETE],
           found[REQUEST_BAD]);
    return 0;
}
