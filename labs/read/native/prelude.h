/* What the C of labs.read.native.to_c begins with. Whatever Python would refuse, or compute with more
   than 64 bits, ends the call: f_fail(). */
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define RARE __attribute__((noinline, cold))
typedef const char *string;
typedef struct { int64_t f0, f1; } tuple2;
typedef struct { int64_t f0, f1, f2; } tuple3;
typedef struct { int64_t f0, f1, f2, f3; } tuple4;
static _Thread_local jmp_buf failed;
RARE static _Noreturn void f_fail(void) { longjmp(failed, 1); }
#define CHECKED(name) static inline int64_t f_##name(int64_t a, int64_t b) \
{ int64_t all; if (__builtin_##name##_overflow(a, b, &all)) f_fail(); return all; }
CHECKED(add) CHECKED(sub) CHECKED(mul)
static inline int64_t f_floor(int64_t a, int64_t b)
{ if (!b || b == -1) f_fail(); return a / b - (a % b && (a < 0) != (b < 0)); }
static inline void f_same(int64_t a, int64_t b) { if (a != b) f_fail(); }
static inline int64_t f_mod(int64_t a, int64_t b) { return a - b * f_floor(a, b); }
static inline int64_t f_shift(int64_t a, int64_t b)
{ if (b < 0 || b > 62) f_fail(); return f_mul(a, 1LL << b); }
static inline int64_t f_right(int64_t a, int64_t b)
{ if (b < 0 || b > 63) f_fail(); return a >> b; }
static inline int64_t f_power(int64_t a, int64_t b)
{ int64_t all = 1; if (b < 0) f_fail(); while (b-- > 0) all = f_mul(all, a); return all; }
static inline int64_t f_round(double a)
{ if (!(fabs(a) < 9e18)) f_fail(); return llrint(a); }
static inline int64_t f_int(double a) { if (!(fabs(a) < 9e18)) f_fail(); return (int64_t) a; }
/* To compare an integer with a double, which Python does exactly. */
static inline double f_exact(int64_t a) { if (a > 1LL << 53 || a < -(1LL << 53)) f_fail(); return (double) a; }
static inline double f_divide(double a, double b)
{ if (b == 0 || fabs(a) > 1LL << 53 || fabs(b) > 1LL << 53) f_fail(); return a / b; }
static inline double f_pow(double a, double b)
{ if (!(a >= 0) || (a == 0 && b <= 0)) f_fail(); return pow(a, b); }
#define PLAIN(type, name) \
static inline type name##_min(type a, type b) { return b < a ? b : a; } \
static inline type name##_max(type a, type b) { return b > a ? b : a; } \
static inline type name##_abs(type a) { return a < 0 ? -a : a; }
PLAIN(int64_t, int64_t) PLAIN(double, double)
#define ARRAY(name, type) \
typedef struct { type *at; int64_t length, row; } name; \
static inline type *name##_at(name a, int64_t n) \
{ if ((uint64_t) n >= (uint64_t) a.length) f_fail(); return &a.at[n]; }
#define NUMBERS(type) ARRAY(a_##type, type) \
static inline void a_##type##_set(a_##type a, int64_t n, int64_t value) \
{ if ((int64_t) (type) value != value) f_fail(); *a_##type##_at(a, n) = (type) value; }
NUMBERS(uint8_t) NUMBERS(int8_t) NUMBERS(uint16_t) NUMBERS(int32_t) NUMBERS(uint32_t)
NUMBERS(int64_t)
static inline int64_t f_place(int64_t width, int64_t row, int64_t column)
{ if (column < 0 || column >= width) f_fail(); return f_add(f_mul(row, width), column); }
/* Numbers of several bytes: those functions of labs.read.native.compiled that have these names. */
static inline const uint8_t *f_bytes(a_uint8_t data, int64_t at, int64_t count)
{ if (at < 0 || at > data.length - count) f_fail(); return data.at + at; }
static inline int64_t f_be16(a_uint8_t data, int64_t at)
{ const uint8_t *b = f_bytes(data, at, 2); return b[0] << 8 | b[1]; }
static inline int64_t f_le16(a_uint8_t data, int64_t at)
{ const uint8_t *b = f_bytes(data, at, 2); return b[0] | b[1] << 8; }
static inline int64_t f_be32(a_uint8_t data, int64_t at)
{ const uint8_t *b = f_bytes(data, at, 4);
  return (uint32_t) b[0] << 24 | (uint32_t) b[1] << 16 | (uint32_t) b[2] << 8 | b[3]; }
static inline int64_t f_le32(a_uint8_t data, int64_t at)
{ const uint8_t *b = f_bytes(data, at, 4);
  return b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24; }
static inline int64_t f_scrambled(int64_t value)
{ uint64_t all = (uint64_t) value * 0x9E3779B97F4A7C15u; return (int64_t) ((all ^ all >> 29) >> 2); }
#define QUEUE(name, type) \
typedef struct { type *at; int64_t first, count, room; } name; \
static void name##_grow(name *q) { \
    int64_t room = q->room ? 2 * q->room : 64; \
    type *at = malloc(room * sizeof *at); \
    if (!at) f_fail(); \
    for (int64_t n = 0; n < q->count; n++) at[n] = q->at[(q->first + n) & (q->room - 1)]; \
    free(q->at); q->at = at; q->first = 0; q->room = room; } \
static inline type *name##_at(name *q, int64_t n) { \
    if (n < 0) n += q->count; \
    if (n < 0 || n >= q->count) f_fail(); \
    return &q->at[(q->first + n) & (q->room - 1)]; } \
static inline void name##_append(name *q, type element) { \
    if (q->count == q->room) name##_grow(q); \
    q->at[(q->first + q->count++) & (q->room - 1)] = element; } \
static inline void name##_appendleft(name *q, type element) { \
    if (q->count == q->room) name##_grow(q); \
    q->first = (q->first - 1) & (q->room - 1); q->count++; q->at[q->first] = element; } \
static inline type *name##_pop(name *q) \
{ type *element = name##_at(q, -1); q->count--; return element; } \
static inline type *name##_popleft(name *q) { \
    type *element = name##_at(q, 0); \
    q->first = (q->first + 1) & (q->room - 1); q->count--; return element; } \
static inline void name##_clear(name *q) { q->first = q->count = 0; } \
static inline void name##_del(name *q, int64_t n) { \
    name##_at(q, n); \
    for (n += n < 0 ? q->count : 0; n + 1 < q->count; n++) \
        *name##_at(q, n) = *name##_at(q, n + 1); \
    q->count--; } \
static inline void name##_insert(name *q, int64_t n, type element) { \
    if (n < 0 || n > q->count) f_fail(); \
    name##_append(q, element); \
    for (int64_t m = q->count - 1; m > n; m--) *name##_at(q, m) = *name##_at(q, m - 1); \
    *name##_at(q, n) = element; }
#define REFERENCES(name, type) \
typedef type *p_##type; \
QUEUE(name, p_##type) \
static inline int64_t name##_find(name *q, type *element) \
{ for (int64_t n = 0; n < q->count; n++) if (*name##_at(q, n) == element) return n; return -1; } \
static inline int64_t name##_index(name *q, type *element) \
{ int64_t n = name##_find(q, element); if (n < 0) f_fail(); return n; } \
static inline void name##_remove(name *q, type *element) \
{ name##_del(q, name##_index(q, element)); } \
static inline type *new_##type(type element) \
{ type *made = f_kept(sizeof element); *made = element; return made; }
typedef struct kept { struct kept *before; int64_t used; char at[1 << 20]; } kept;
static _Thread_local kept *f_all;
static void *f_kept(int64_t size)
{
    size = (size + 15) & ~15LL;
    if (!f_all || f_all->used + size > (int64_t) sizeof f_all->at) {
        kept *more = malloc(sizeof *more);
        if (!more) f_fail();
        more->before = f_all; more->used = 0; f_all = more;
    }
    f_all->used += size;
    return f_all->at + f_all->used - size;
}
static void f_forget(void)
{ while (f_all) { kept *block = f_all; f_all = block->before; free(block); } }
/* Matsumoto and Nishimura, Mersenne Twister, 1998: 624 words, and the place of the next one. */
typedef uint32_t twister;
static uint32_t twister_word(twister *words)
{
    if (words[624] >= 624) {
        for (int n = 0; n < 624; n++) {
            uint32_t both = (words[n] & 0x80000000u) | (words[(n + 1) % 624] & 0x7fffffffu);
            words[n] = words[(n + 397) % 624] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfu : 0);
        }
        words[624] = 0;
    }
    uint32_t word = words[words[624]++];
    word ^= word >> 11; word ^= word << 7 & 0x9d2c5680u; word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}
static double twister_random(twister *words)
{ uint32_t high = twister_word(words) >> 5, low = twister_word(words) >> 6;
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0); }
QUEUE(q_int64_t, int64_t)
QUEUE(q_double, double)
QUEUE(q_string, string)
