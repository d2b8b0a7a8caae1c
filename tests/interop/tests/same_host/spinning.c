/* Two processes that communicate by WRITEs alone, and wait by polling memory: the waiting one makes no call of verbs.
 * Arguments: device, GID index. */

#include "ends.h"

enum { TURNS = 500 };

static void turns(int socket, int first)
{
	struct ibv_mr *out, *in;
	struct told peer;
	volatile uint64_t *said = region(4096, &out), *heard = region(4096, &in);
	struct ibv_qp *qp = meet(socket, in, &peer);

	for (uint64_t turn = 1; turn <= TURNS; turn++) {
		if (!first)
			while (*heard != turn)
				;
		*said = turn;
		post(qp, IBV_WR_RDMA_WRITE, out, 8, &peer, 0);
		if (first)
			while (*heard != turn)
				;
		/* The completion is polled only after its turn is over. */
		MUST(status() == IBV_WC_SUCCESS);
	}
	part(socket);
}

static void second(int socket)
{
	turns(socket, 0);
}

int main(int argc, char **argv)
{
	pid_t pid;

	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	int socket = child(second, &pid);
	open_device();
	turns(socket, 1);
	ended_well(pid);
	printf("all as it must be\n");
	return 0;
}
