/* A program whose registered memory a peer process writes and reads, and its expectations of that memory before,
 * meanwhile and afterwards. Arguments: device, GID index, `shared` or `private`: the fate of plain memory. */

#include "peer.h"

/* Expected state of a mapping while it is registered. */
enum fate { SHARED, PRIVATE };

static enum fate plain;
static char in_bss[64 * PAGE];

/* Registers, lets the peer read and write, deregisters: the bytes are always right. */
static void use(const char *what, char *at, size_t length, enum fate fate)
{
	char *page = (char *)(((uintptr_t)at + PAGE - 1) & -PAGE);
	int was = is_shared(page), whole = page + PAGE <= at + length;
	struct ibv_mr *mr;

	fill(at, length, 1);
	MUST((mr = ibv_reg_mr(pd, at, length, ALL)) != NULL);
	if (whole && is_shared(page) != (fate == SHARED ? 1 : was)) {
		printf("%s: shared %d where it must not be so\n", what, is_shared(page));
		exit(1);
	}
	MUST(holds(at, length, 1) && peer(mr, at, length, 0, 1));
	MUST(peer(mr, at, length, 1, 2) && holds(at, length, 2));
	fill(at, length, 3);
	MUST(peer(mr, at, length, 0, 3));
	MUST(ibv_dereg_mr(mr) == 0);
	MUST(is_shared(page) == was);
	MUST(holds(at, length, 3));
	printf("%s: well\n", what);
}

static void kinds(void)
{
	char on_stack[64 * PAGE];
	char *heap = malloc(MIB), *small = malloc(100), *at;
	int fd = memfd_create("file", 0);

	MUST(heap && small && fd >= 0 && ftruncate(fd, MIB) == 0);
	use("heap", heap, MIB, plain);
	use("the same again", heap + 100, MIB - 1000, plain);
	use("less than a page", small, 100, PRIVATE);
	use("bss", in_bss, sizeof in_bss, plain);
	use("stack", on_stack, sizeof on_stack, PRIVATE);
	MUST((at = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1)) != NULL);
	use("mmap", at, MIB, plain);
	MUST(mlock(at, MIB) == 0 || (errno == ENOMEM || errno == EPERM));
	munmap(at, MIB);
	MUST((at = map(MIB, MAP_PRIVATE, fd)) != NULL);
	use("private file", at, MIB, PRIVATE);
	munmap(at, MIB);
	MUST((at = map(MIB, MAP_SHARED, fd)) != NULL);
	use("shared file", at, MIB, PRIVATE);
	munmap(at, MIB);
	MUST((at = map(MIB, MAP_SHARED | MAP_ANONYMOUS, -1)) != NULL);
	use("shared anonymous", at, MIB, PRIVATE);
	munmap(at, MIB);
	if ((at = map(2 * MIB, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1)) != NULL) {
		use("hugetlb", at, 2 * MIB, PRIVATE);
		munmap(at, 2 * MIB);
	}
	MUST((at = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1)) != NULL && madvise(at, MIB, MADV_DONTFORK) == 0);
	use("not for children", at, MIB, PRIVATE);
	munmap(at, MIB);
	MUST((at = map(8 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1)) != NULL);
	madvise(at, 8 * MIB, MADV_HUGEPAGE);
	use("huge pages", at, 8 * MIB, plain);
	munmap(at, 8 * MIB);
	free(heap);
	free(small);
	close(fd);
}

/* Overlapping regions: shared until the last one is gone. */
static void overlapping(void)
{
	char *at = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *first, *second;

	fill(at, MIB, 5);
	MUST((first = ibv_reg_mr(pd, at, MIB / 2, ALL)) && (second = ibv_reg_mr(pd, at + MIB / 4, 3 * MIB / 4, ALL)));
	MUST(peer(second, at + MIB / 4, 3 * MIB / 4, 1, 6));
	MUST(holds(at, MIB / 4, 5) && holds(at + MIB / 4, 3 * MIB / 4, 6));
	MUST(ibv_dereg_mr(first) == 0);
	MUST(is_shared(at) == 0 && is_shared(at + MIB / 2 - PAGE) == (plain == SHARED));
	MUST(peer(second, at + MIB / 4, 3 * MIB / 4, 0, 6));
	MUST(ibv_dereg_mr(second) == 0);
	MUST(is_shared(at + MIB / 2) == 0 && holds(at + MIB / 4, 3 * MIB / 4, 6));
	munmap(at, MIB);
}

/* A child's memory stays its own, and so does its parent's. */
static void forks(void)
{
	char *at = map(3 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr = ibv_reg_mr(pd, at, 3 * MIB, ALL);
	int status;
	pid_t child;

	MUST(mr && peer(mr, at, 3 * MIB, 1, 7));
	fflush(stdout);
	MUST((child = fork()) >= 0);
	if (child == 0) {
		int good = holds(at, 3 * MIB, 7);

		fill(at, 3 * MIB, 8);
		_exit(good && is_shared(at) == 0 && holds(at, 3 * MIB, 8) ? 0 : 1);
	}
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	MUST(holds(at, 3 * MIB, 7) && peer(mr, at, 3 * MIB, 0, 7));
	MUST(system("exit 3") == 3 << 8);
	MUST(ibv_dereg_mr(mr) == 0 && holds(at, 3 * MIB, 7));
	munmap(at, 3 * MIB);
}

static int is_zero(const char *at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (at[i])
			return 0;
	return 1;
}

/* Assumptions of an allocator about memory that it gave out and got back. */
static void *allocator(void *unused)
{
	for (int round = 0; round < 20; round++) {
		char *at = malloc(400000);
		struct ibv_mr *mr;

		MUST(at);
		fill(at, 400000, round);
		MUST((mr = ibv_reg_mr(pd, at, 400000, ALL)) && ibv_dereg_mr(mr) == 0 && holds(at, 400000, round));
		free(at);
		malloc_trim(0);
		MUST((at = calloc(1, 700000)) != NULL && is_zero(at, 700000));
		free(at);
	}
	return unused;
}

/* Registered memory that the program unmaps: its own fault, but no other program suffers. */
static void taken_away(void)
{
	char *at = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1), *grown;
	struct ibv_mr *mr = ibv_reg_mr(pd, at, MIB, ALL);

	MUST(mr && munmap(at, MIB) == 0);
	MUST(mmap(at, MIB / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	fill(at, MIB / 2, 9);
	MUST(ibv_dereg_mr(mr) == 0);
	MUST(holds(at, MIB / 2, 9) && is_shared(at) == 0 && is_shared(at + MIB / 2) != 1);
	munmap(at, MIB / 2);

	MUST((at = malloc(MIB)) != NULL);
	fill(at, MIB, 10);
	MUST((mr = ibv_reg_mr(pd, at, MIB, ALL)) != NULL);
	MUST((grown = realloc(at, 5 * MIB)) != NULL && holds(grown, MIB, 10));
	MUST(ibv_dereg_mr(mr) == 0 && holds(grown, MIB, 10));
	fill(grown, 5 * MIB, 11);
	MUST(holds(grown, 5 * MIB, 11));
	free(grown);
}

static volatile int over;

struct work {
	volatile uint64_t *words;
	size_t count;
	int fd;
};

/* Counts in every page; an unexpected count ends the program. */
static void *hammer(void *argument)
{
	struct work *work = argument;

	for (uint64_t lap = 1; !over; lap++)
		for (size_t i = 0; i < work->count; i += PAGE / 8) {
			MUST(work->words[i] == lap - 1);
			work->words[i] = lap;
		}
	return NULL;
}

/* The kernel writes on a thread's behalf. */
static void *reader(void *argument)
{
	struct work *work = argument;

	while (!over)
		MUST(pread(work->fd, (void *)work->words, work->count * 8, 0) == (ssize_t)work->count * 8);
	return NULL;
}

/* Whether other threads' system calls wait while their memory moves: a user without that right who insists on sharing
 * accepts that they may fail. */
static int calls_wait(void)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void beside_threads(int with_calls)
{
	char *at = map(2 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct work half = { (uint64_t *)at, MIB / 8, -1 }, rest = { (uint64_t *)(at + MIB), MIB / 8, -1 };
	pthread_t threads[2];

	MUST((rest.fd = memfd_create("source", 0)) >= 0 && ftruncate(rest.fd, MIB) == 0);
	over = 0;
	MUST(pthread_create(&threads[0], NULL, hammer, &half) == 0);
	MUST(pthread_create(&threads[1], NULL, with_calls ? reader : hammer, &rest) == 0);
	for (int round = 0; round < 50; round++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, at, 2 * MIB, ALL);

		MUST(mr && ibv_dereg_mr(mr) == 0);
	}
	over = 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	close(rest.fd);
	munmap(at, 2 * MIB);
}

int main(int argc, char **argv)
{
	const char *mode = getenv("WEFT_SHARE");
	pthread_t thread;
	pid_t child;

	MUST(argc == 4);
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(50);
	gid_index = atoi(argv[2]);
	plain = strcmp(argv[3], "shared") == 0 ? SHARED : PRIVATE;
	child = start_peer(argv[1]);
	open_device(argv[1]);
	/* Registered before the first connection. */
	char *early = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	fill(early, MIB, 4);
	struct ibv_mr *mr = ibv_reg_mr(pd, early, MIB, ALL);
	MUST(mr && is_shared(early) == 0);
	connect_to_peer();
	MUST(is_shared(early) == (plain == SHARED) && holds(early, MIB, 4) && peer(mr, early, MIB, 0, 4));
	MUST(peer(mr, early, MIB, 1, 12) && holds(early, MIB, 12));
	kinds();
	overlapping();
	forks();
	taken_away();
	/* In the main heap, and in another thread's. */
	mallopt(M_MMAP_THRESHOLD, 16 * MIB);
	allocator(NULL);
	MUST(pthread_create(&thread, NULL, allocator, NULL) == 0 && pthread_join(thread, NULL) == 0);
	beside_threads(0);
	/* With WEFT_SHARE=on but without the right to hold system calls back, calls may fail. */
	if (calls_wait() || !mode || strcmp(mode, "on") != 0)
		beside_threads(1);
	MUST(ibv_dereg_mr(mr) == 0 && is_shared(early) == 0 && holds(early, MIB, 12));
	close(to_peer);
	MUST(waitpid(child, NULL, 0) == child);
	puts("all as it must be");
	return 0;
}
