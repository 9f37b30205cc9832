/* The length of one HTTP request in a buffer. Only GET without a body is allowed. */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { REQUEST_MOST_BYTES = 4096 };

enum verdict { REQUEST_INCOMPLETE, REQUEST_COMPLETE, REQUEST_BAD };

struct request {
    enum verdict verdict;
    size_t length;    /* bytes of a complete request, with the empty line */
    bool last;        /* the client closes the connection, or expects the server to do so */
};

/* Whether `text` (of `length` bytes, not terminated) begins with `word`. */
static inline bool begins_with(const char *text, size_t length, const char *word)
{
    return length >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

/* RFC 9112, section 3: "GET SP request-target SP HTTP/1.x". */
static inline bool request_line_allowed(const char *line, size_t length, bool *last)
{
    static const char method[] = "GET ";
    static const char version[] = " HTTP/1.";
    const size_t before = sizeof method - 1, after = sizeof version; /* with the minor digit */
    if (length < before + 1 + after || memcmp(line, method, before) != 0)
        return false;
    const char *end = line + length - after;
    if (memcmp(end, version, after - 1) != 0 || (end[after - 1] != '0' && end[after - 1] != '1'))
        return false;
    *last = end[after - 1] == '0';
    for (const char *at = line + before; at < end; at++)
        if (*at <= ' ' || *at == 0x7f)
            return false;
    return line[before] == '/';
}

/* RFC 9112, section 5: a name, a colon, a value. A body is refused. */
static inline bool header_allowed(const char *line, size_t length, bool *last)
{
    const char *colon = memchr(line, ':', length);
    if (colon == NULL || colon == line)
        return false;
    for (const char *at = line; at < line + length; at++)
        if ((at < colon && (*at <= ' ' || *at == 0x7f)) || *at == '\0' || *at == '\r')
            return false;
    if (begins_with(line, length, "Content-Length:")
        || begins_with(line, length, "Transfer-Encoding:"))
        return false;
    if (begins_with(line, length, "Connection:")) {
        const char *value = colon + 1;
        while (value < line + length && *value == ' ')
            value++;
        *last = *last || begins_with(value, (size_t)(line + length - value), "close");
    }
    return true;
}

/* Read the first request of a buffer. What follows it is not looked at. */
static inline struct request read_request(const char *buffer, size_t length)
{
    struct request found = {REQUEST_INCOMPLETE, 0, false};
    const struct request bad = {REQUEST_BAD, 0, true};
    size_t start = 0;
    for (;;) {
        const char *line = buffer + start;
        const char *newline = length > start ? memchr(line, '\n', length - start) : NULL;
        if (newline == NULL)
            return length >= REQUEST_MOST_BYTES ? bad : found;
        const size_t bytes = (size_t)(newline - line);
        if (start + bytes + 1 > REQUEST_MOST_BYTES || bytes == 0 || line[bytes - 1] != '\r')
            return bad;
        if (bytes == 1 && start > 0) {
            found.verdict = REQUEST_COMPLETE;
            found.length = start + 2;
            return found;
        }
        const bool allowed = start == 0 ? request_line_allowed(line, bytes - 1, &found.last)
                                        : header_allowed(line, bytes - 1, &found.last);
        if (!allowed)
            return bad;
        start += bytes + 1;
    }
}

#endif
