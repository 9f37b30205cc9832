/* What a program inside a guest may try in order to reach the machine below. It prints a line for
 * each attempt: a word, and the result or the signal that stopped it. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define X32 0x40000000L
/* Numbers of i386, arch/x86/entry/syscalls/syscall_32.tbl. */
enum { I386_CREAT = 8, I386_GETPID = 20, I386_KILL = 37 };
#define PAGE 4096UL

static sigjmp_buf back;
static volatile int stopped_by;

static void stop(int signal)
{
	stopped_by = signal;
	siglongjmp(back, 1);
}

#define ATTEMPT(word, result)                                       \
	do {                                                        \
		if (sigsetjmp(back, 1))                             \
			printf("%s signal %d\n", word, stopped_by); \
		else                                                \
			printf("%s %ld\n", word, (long)(result));   \
	} while (0)

static long call(long number, long a, long b)
{
	long result;

	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(0L)
		     : "rcx", "r11", "memory");
	return result;
}

static long int80(long number, long a, long b)
{
	long result;

	/* A kernel that took the number for one of x86-64 would find no descriptor -1. */
	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(number), "b"(a), "c"(b), "d"(0L), "D"(-1L), "S"(0L)
		     : "r8", "r9", "r10", "r11", "memory");
	return result;
}

/* The arguments of int 0x80 are 32 bits wide: copies in static memory have such addresses. */
static char kept[4096], made[4096];

static void calls(const char *canary, const char *make, long victim)
{
	long (*vsyscall_time)(long *) = (void *)0xffffffffff600400;

	strncpy(kept, canary, sizeof(kept) - 1);
	strncpy(made, make, sizeof(made) - 1);
	ATTEMPT("getpid", call(SYS_getpid, 0, 0));
	ATTEMPT("open", call(SYS_open, (long)kept, O_RDONLY));
	ATTEMPT("creat", call(SYS_creat, (long)made, 0600));
	ATTEMPT("x32-getpid", call(X32 | SYS_getpid, 0, 0));
	ATTEMPT("x32-creat", call(X32 | SYS_creat, (long)made, 0600));
	ATTEMPT("int80-getpid", int80(I386_GETPID, 0, 0));
	ATTEMPT("int80-number-of-x86-64", int80(SYS_getpid, 0, 0));
	ATTEMPT("int80-creat", int80(I386_CREAT, (long)made, 0600));
	ATTEMPT("vsyscall-time", vsyscall_time(NULL));
	ATTEMPT("x32-kill", call(X32 | SYS_kill, victim, SIGUSR1));
	ATTEMPT("int80-kill", int80(I386_KILL, victim, SIGUSR1));
	ATTEMPT("kill", call(SYS_kill, victim, SIGUSR1));
}

/* Overwrite both pages that the program shares with its kernel, then need new memory. They are after
 * the stub page. */
static void scribble(char *shared, int byte)
{
	char *fresh = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	unsigned long i;

	for (i = 0; i < 2 * PAGE; i += PAGE) { /* nothing but a fault, if it is another page */
		volatile char *word = shared + i + PAGE - 1;

		*word = *word;
	}
	puts("scribbles");
	memset(shared, byte, 2 * PAGE);
	for (i = 0; i < 64; i++)
		fresh[i * PAGE] = 1;
	puts("went on");
}

/* Take the turn of the kernel, or one that nobody has, while running on, and change memory. */
static void forge(volatile unsigned int *turn, unsigned int value)
{
	char *fresh = mmap(NULL, 512 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	unsigned long i;

	puts("forges");
	for (i = 0; i < 512; i++)
		fresh[i * PAGE] = 1;
	*turn = value;
	/* Longer than the kernel waits before it looks. Virtual time stands still: count. */
	for (i = 0; i < 3000000000UL; i++)
		asm volatile("");
	for (i = 0; i < 512; i += 2)
		munmap(fresh + i * PAGE, PAGE);
	puts("went on");
}

/* A page that may only be executed cannot be read where the processor has protection keys; but any
 * program may change its rights to the keys (WRPKRU). */
static void allow_all_keys(void)
{
	unsigned int leaf = 7, b, features = 0, d;

	asm volatile("cpuid" : "+a"(leaf), "=b"(b), "+c"(features), "=d"(d));
	if (features & 16) /* OSPKE */
		asm volatile(".byte 0x0f, 0x01, 0xef" : : "a"(0), "c"(0), "d"(0));
}

/* A call from the page that may make calls on the machine below, but not this one. */
static void jump(const volatile unsigned char *at)
{
	long result;

	allow_all_keys();
	while (at[0] != 0x0f || at[1] != 0x05) /* syscall */
		at++;
	puts("jumps");
	asm volatile("jmp *%1" : "=a"(result) : "r"(at), "a"((long)SYS_getpid) : "memory");
}

int main(int count, char **words)
{
	static const int stops[] = { SIGSEGV, SIGILL, SIGSYS, SIGBUS, SIGTRAP };
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_NODEFER };
	unsigned int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count == 3 && strcmp(words[1], "jump") == 0)
		jump((void *)strtoul(words[2], NULL, 16));
	if (count == 4 && strcmp(words[1], "scribble") == 0) {
		scribble((char *)strtoul(words[2], NULL, 16) + PAGE, atoi(words[3]));
		return 0;
	}
	if (count == 4 && strcmp(words[1], "forge") == 0) {
		forge((void *)(strtoul(words[2], NULL, 16) + 2 * PAGE), atoi(words[3]));
		return 0;
	}
	if (count != 5 || strcmp(words[1], "calls") != 0)
		return 2;
	for (i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
		sigaction(stops[i], &action, NULL);
	calls(words[2], words[3], atol(words[4]));
	return 0;
}
