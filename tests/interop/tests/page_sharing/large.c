/* A program that registers much more memory than it or its peer ever uses, and a large region that it uses completely:
 * registration and deregistration copy no more of it than the budget allows, as the trace shows. Arguments: device, GID
 * index. */

#include "peer.h"

enum { FULL = 96 * MIB };

static const size_t HUGE_REGION = 1024ul * MIB;

/* A gibibyte, of which the program uses three pieces and the peer two. */
static void hardly_used(char *at)
{
	size_t middle = HUGE_REGION / 2, end = HUGE_REGION - MIB;
	struct ibv_mr *mr;

	fill(at, MIB, 1);
	fill(at + middle, MIB, 2);
	fill(at + end, MIB, 3);
	MUST((mr = ibv_reg_mr(pd, at, HUGE_REGION, ALL)) != NULL);
	MUST(peer(mr, at, MIB, 0, 1) && peer(mr, at + middle, MIB, 0, 2) && peer(mr, at + end, MIB, 0, 3));
	MUST(peer(mr, at + 4 * MIB, MIB, 1, 4) && peer(mr, at + end, MIB, 1, 5));
	MUST(ibv_dereg_mr(mr) == 0);
	MUST(is_shared(at) == 0 && holds(at, MIB, 1) && holds(at + middle, MIB, 2));
	MUST(holds(at + 4 * MIB, MIB, 4) && holds(at + end, MIB, 5));
}

static void used_as_a_whole(void)
{
	char *at = map(FULL, MAP_PRIVATE | MAP_ANONYMOUS, -1), *small = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct ibv_mr *mr, *small_mr;

	MUST(at && small);
	fill(at, FULL, 6);
	MUST((mr = ibv_reg_mr(pd, at, FULL, ALL)) && (small_mr = ibv_reg_mr(pd, small, MIB, ALL)));
	/* The beginning is shared, the end is not. The budget left for the rest depends on the elapsed time. */
	MUST(is_shared(at) == 1 && is_shared(at + FULL - PAGE) == 0);
	MUST(peer(mr, at + FULL - 8 * MIB, 8 * MIB, 1, 7) && peer(small_mr, small, MIB, 1, 8));
	/* Across the boundary between shared and private pages. */
	for (int i = 0; i < FULL / MIB; i += 8)
		MUST(peer(mr, at + i * MIB + 100, 8 * MIB - 100, 1, 9));
	MUST(ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(small_mr) == 0 && is_shared(at) == 0);
	for (int i = 0; i < FULL / MIB; i += 8)
		MUST(holds(at + i * MIB + 100, 8 * MIB - 100, 9));
	MUST(holds(small, MIB, 8));
}

int main(int argc, char **argv)
{
	pid_t child;
	char *at;

	MUST(argc == 3);
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(50);
	gid_index = atoi(argv[2]);
	child = start_peer(argv[1]);
	open_device(argv[1]);
	MUST((at = map(HUGE_REGION, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1)) != NULL);
	madvise(at, HUGE_REGION, MADV_NOHUGEPAGE);
	connect_to_peer();
	hardly_used(at);
	/* Once more: the pages are as the first round left them. */
	memset(at + 4 * MIB, 0, MIB);
	hardly_used(at);
	used_as_a_whole();
	close(to_peer);
	MUST(waitpid(child, NULL, 0) == child);
	puts("all as it must be");
	return 0;
}
