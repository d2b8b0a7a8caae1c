/* Memory that its program keeps changing while a peer reads it and while it is sent: the data is from one moment or
 * another, but it arrives. Arguments: device, GID index. */

#include "ends.h"

#include <pthread.h>

enum { BYTES = 4096, TURNS = 400 };

static void *change(void *at)
{
	volatile uint64_t *words = at;

	for (uint64_t turn = 1;; turn++)
		for (unsigned word = 0; word < BYTES / 8; word += 128)
			words[word] = turn;
	return NULL;
}

static void *living(struct ibv_mr **mr)
{
	void *at = region(BYTES, mr);
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, change, at) == 0);
	return at;
}

static void second(int socket)
{
	struct ibv_mr *mr;
	struct told peer;

	living(&mr);
	meet(socket, mr, &peer);
	part(socket);
}

int main(int argc, char **argv)
{
	struct ibv_mr *lives, *rests;
	struct told peer;
	pid_t pid;

	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	int socket = child(second, &pid);
	open_device();
	region(BYTES, &rests);
	struct ibv_qp *qp = meet(socket, rests, &peer);
	for (int turn = 0; turn < TURNS; turn++) {
		post(qp, IBV_WR_RDMA_READ, rests, BYTES, &peer, 0);
		MUST(status() == IBV_WC_SUCCESS);
	}
	living(&lives);
	for (int turn = 0; turn < TURNS; turn++) {
		post(qp, IBV_WR_RDMA_WRITE, lives, BYTES, &peer, 0);
		MUST(status() == IBV_WC_SUCCESS);
	}
	part(socket);
	ended_well(pid);
	printf("all as it must be\n");
	return 0;
}
