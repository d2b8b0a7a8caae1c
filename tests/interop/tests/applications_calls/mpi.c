/* Message passing, with each byte and number checked: messages round a ring, sums over all, and one-sided access.
 * Prints "all N right", N being the number of processes. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 4096
#define LAPS 100

static int rank, size, wrong;

static void check(int right, const char *what, size_t of, size_t at)
{
    if (!right) {
        printf("wrong: %s of %zu at %zu, process %d\n", what, of, at, rank);
        wrong++;
    }
}

static unsigned char pattern(size_t at, int from, size_t of)
{
    return (unsigned char)(at * 7 + from + of);
}

static void ring(size_t bytes)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *out = malloc(bytes), *in = calloc(bytes, 1);
    size_t i;
    for (i = 0; i < bytes; i++)
        out[i] = pattern(i, rank, bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (i = 0; i < bytes && in[i] == pattern(i, before, bytes); i++)
        ;
    check(i == bytes, "ring", bytes, i);
    free(out);
    free(in);
}

static void sum(size_t words)
{
    long *mine = malloc(words * sizeof *mine), *all = calloc(words, sizeof *all);
    size_t i;
    for (i = 0; i < words; i++)
        mine[i] = (long)i * (rank + 1);
    MPI_Allreduce(mine, all, words, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < words && all[i] == (long)i * size * (size + 1) / 2; i++)
        ;
    check(i == words, "allreduce", words, i);
    free(mine);
    free(all);
}

/* Word 0 is a counter; the previous process writes the others. */
static void one_sided(void)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size, far = (before + size - 1) % size;
    long *memory, *put = malloc(WORDS * sizeof *put), *got = calloc(WORDS, sizeof *got), one = 1, was;
    MPI_Win window;
    size_t i;
    MPI_Win_allocate((1 + WORDS) * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, (1 + WORDS) * sizeof *memory);
    for (i = 0; i < WORDS; i++)
        put[i] = rank * 100000L + i;
    MPI_Win_fence(0, window);
    MPI_Put(put, WORDS, MPI_LONG, next, 1, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (i = 0; i < WORDS && memory[1 + i] == before * 100000L + (long)i; i++)
        ;
    check(i == WORDS, "put", WORDS, i);
    MPI_Win_fence(0, window);
    MPI_Get(got, WORDS, MPI_LONG, before, 1, WORDS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (i = 0; i < WORDS && got[i] == far * 100000L + (long)i; i++)
        ;
    check(i == WORDS, "get", WORDS, i);
    for (i = 0; i < LAPS; i++)
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (rank == 0)
        check(memory[0] == (long)LAPS * size, "accumulate", LAPS, memory[0]);
    MPI_Win_fence(0, window);
    MPI_Win_lock_all(0, window);
    for (i = 0; i < LAPS; i++) {
        MPI_Fetch_and_op(&one, &was, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (rank == 0)
        check(memory[0] == 2L * LAPS * size, "fetch and add", LAPS, memory[0]);
    MPI_Win_unlock(rank, window);
    MPI_Win_free(&window);
    free(put);
    free(got);
}

int main(int argc, char **argv)
{
    int all;
    size_t of;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (of = 1; of <= 4u << 20; of *= 8)
        ring(of);
    for (of = 1; of <= 1u << 18; of *= 8)
        sum(of);
    one_sided();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        printf("all %d right\n", size);
    MPI_Finalize();
    return all != 0;
}
