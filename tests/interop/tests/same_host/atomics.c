/* Atomic operations of several processes on one word, while the owner's own processor adds to it: none is lost or done
 * twice. Arguments: device, GID index. */

#include "ends.h"

enum { PEERS = 3, ADDS = 20000, OWN = 2000000, DEPTH = 16 };

/* Adds by FETCH_ADD, several outstanding. */
static void adds(int socket)
{
	struct ibv_mr *mr;
	struct told peer;
	region(4096, &mr);
	struct ibv_qp *qp = meet(socket, mr, &peer);
	int posted = 0;

	for (int done = 0; done < ADDS; done++) {
		for (; posted < ADDS && posted < done + DEPTH; posted++)
			post(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 8, &peer, 1);
		MUST(status() == IBV_WC_SUCCESS);
	}
	part(socket);
}

/* Adds by compare and swap: the value found is the next one to compare with. */
static void swaps(int socket)
{
	struct ibv_mr *mr;
	struct told peer;
	volatile uint64_t *found = region(4096, &mr);
	struct ibv_qp *qp = meet(socket, mr, &peer);

	for (int done = 0; done < ADDS;) {
		uint64_t believed = *found;
		post(qp, IBV_WR_ATOMIC_CMP_AND_SWP, mr, 8, &peer, believed);
		MUST(status() == IBV_WC_SUCCESS);
		if (*found == believed) {
			done++;
			*found = believed + 1;
		}
	}
	part(socket);
}

int main(int argc, char **argv)
{
	int sockets[PEERS];
	pid_t pids[PEERS];
	struct ibv_mr *mr;
	struct told peer;
	char end;

	MUST(argc == 3);
	device = argv[1];
	gid_index = atoi(argv[2]);
	for (int i = 0; i < PEERS; i++)
		sockets[i] = child(i == 0 ? swaps : adds, &pids[i]);
	open_device();
	uint64_t *word = region(4096, &mr);
	for (int i = 0; i < PEERS; i++)
		meet(sockets[i], mr, &peer);
	for (int i = 0; i < OWN; i++)
		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < PEERS; i++)
		MUST(recv(sockets[i], &end, 1, MSG_WAITALL) == 1);
	uint64_t wanted = OWN + (uint64_t)PEERS * ADDS, total = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	if (total != wanted) {
		printf("%lu instead of %lu\n", total, wanted);
		return 1;
	}
	for (int i = 0; i < PEERS; i++) {
		MUST(write(sockets[i], "e", 1) == 1);
		ended_well(pids[i]);
	}
	printf("all as it must be\n");
	return 0;
}
