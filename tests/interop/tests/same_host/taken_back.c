/* A region that is deregistered while a peer writes it does not change afterwards, and may be unmapped; also if the
 * peer is killed in the middle. Arguments: device, GID index. */

#include "ends.h"

enum { LEN = 4 << 20, ROUNDS = 12 };

static void initiator(int socket)
{
	struct ibv_mr *from;
	struct told peer;
	char *bytes = region(LEN, &from);
	struct ibv_qp *qp = meet(socket, from, &peer);
	enum ibv_wc_status how;

	memset(bytes, 0x77, LEN);
	do {
		post(qp, IBV_WR_RDMA_WRITE, from, LEN, &peer, 0);
		how = status();
	} while (how == IBV_WC_SUCCESS);
	MUST(how == IBV_WC_REM_ACCESS_ERR);
}

static void initiator_by_frames_too(int socket)
{
	struct ibv_mr *from;
	struct told peer;
	region(LEN, &from);
	struct ibv_qp *qp = meet(socket, from, &peer);
	int n = 0;

	for (;;) {
		post(qp, n++ % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, from, LEN, &peer, 0);
		MUST(status() == IBV_WC_SUCCESS);
	}
}

static void round_of(int number, int killed)
{
	struct ibv_mr *mr;
	struct told peer;
	pid_t pid;
	int socket = child(killed ? initiator_by_frames_too : initiator, &pid);

	if (!context)
		open_device();
	unsigned char *bytes = region(LEN, &mr);
	struct ibv_qp *qp = meet(socket, mr, &peer);
	wait_seconds(0.003 + 0.0037 * (number % 7));
	if (killed)
		MUST(kill(pid, SIGKILL) == 0);
	double begun = seconds();
	MUST(ibv_dereg_mr(mr) == 0);
	MUST(seconds() - begun < 2);
	memset(bytes, 0x11, LEN);
	wait_seconds(0.02);
	for (int i = 0; i < LEN; i++)
		MUST(bytes[i] == 0x11);
	MUST(munmap(bytes, LEN) == 0);
	if (killed)
		MUST(waitpid(pid, NULL, 0) == pid);
	else
		ended_well(pid);
	MUST(ibv_destroy_qp(qp) == 0);
	close(socket);
}

int main(int argc, char **argv)
{
	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	/* A process that has opened verbs must not fork: each round has a process of its own. */
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			round_of(i, i % 2);
			exit(0);
		}
		ended_well(pid);
	}
	printf("all as it must be\n");
	return 0;
}
