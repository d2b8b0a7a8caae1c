/* An MPI program that exchanges a MiB with its neighbours again and again for some seconds, and compares what arrives. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 20 };

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size, round = 0, ends = 0;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	char *mine = malloc(BYTES), *theirs = malloc(BYTES), *wanted = malloc(BYTES);
	if (argc != 2 || !mine || !theirs || !wanted)
		return 2;
	for (double end = MPI_Wtime() + atof(argv[1]); !ends; round++) {
		int before = (rank + size - 1) % size;
		memset(mine, round + rank, BYTES);
		memset(wanted, round + before, BYTES);
		MPI_Sendrecv(mine, BYTES, MPI_CHAR, (rank + 1) % size, 1, theirs, BYTES, MPI_CHAR, before, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		if (memcmp(theirs, wanted, BYTES)) {
			printf("wrong bytes in round %d\n", round);
			MPI_Abort(MPI_COMM_WORLD, 3);
		}
		ends = MPI_Wtime() > end;
		MPI_Bcast(&ends, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	printf("rank %d exchanged %d rounds\n", rank, round);
	MPI_Finalize();
	return 0;
}
