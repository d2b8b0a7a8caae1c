/* A peer writes and reads the memory of a stopped process. Arguments: device, GID index. */

#include "ends.h"

enum { LEN = 1 << 20, WITHIN = 5 };

static void initiator(int socket)
{
	struct ibv_mr *from, *back;
	struct told peer;
	char *bytes = region(LEN, &from), *held = region(LEN, &back);
	struct ibv_qp *qp = meet(socket, from, &peer);

	memset(bytes, 0x5a, LEN);
	MUST(kill(getppid(), SIGSTOP) == 0);
	wait_seconds(0.05);
	double begun = seconds();
	post(qp, IBV_WR_RDMA_WRITE, from, LEN, &peer, 0);
	MUST(status() == IBV_WC_SUCCESS);
	post(qp, IBV_WR_RDMA_READ, back, LEN, &peer, 0);
	MUST(status() == IBV_WC_SUCCESS);
	double took = seconds() - begun;
	MUST(kill(getppid(), SIGCONT) == 0);
	MUST(memcmp(bytes, held, LEN) == 0);
	MUST(took < WITHIN);
	/* It answers again. */
	post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, back, 8, &peer, 1);
	MUST(status() == IBV_WC_SUCCESS);
	MUST(write(socket, "e", 1) == 1);
}

int main(int argc, char **argv)
{
	struct ibv_mr *mr;
	struct told peer;
	pid_t pid;
	char end;

	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	int socket = child(initiator, &pid);
	open_device();
	char *bytes = region(LEN, &mr);
	meet(socket, mr, &peer);
	MUST(recv(socket, &end, 1, MSG_WAITALL) == 1);
	ended_well(pid);
	MUST(bytes[0] == 0x5b && bytes[LEN - 1] == 0x5a);
	printf("all as it must be\n");
	return 0;
}
