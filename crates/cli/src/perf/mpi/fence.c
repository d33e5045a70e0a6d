/* One rank of several that measure MPI_Win_fence: `fence ITERATIONS WARMUP SECONDS PUTS...`. For each number of puts, each rank puts 8 bytes to
   that many of the next ranks, then all fence. The first rank prints a line for each: `weft-mpi puts=N us=MEDIAN`, the slowest rank's median. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi.h"

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void measure(long puts, long iterations, long warmup, int rank, int ranks)
{
    long *memory = calloc(ranks * (puts + 1), sizeof *memory);
    double *times = calloc(iterations, sizeof *times);
    MPI_Win window;
    if (!memory || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(memory, ranks * (puts + 1) * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    for (long at = -warmup; at < iterations; at++) {
        long value = at;
        double start = now_us();
        for (long put = 0; put < puts; put++)
            MPI_Put(&value, sizeof value, MPI_BYTE, (rank + 1 + put) % ranks, rank * (puts + 1) + put, sizeof value, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        if (at >= 0)
            times[at] = now_us() - start;
        for (long put = 0; put < puts; put++) {
            long from = (((rank - 1 - put) % ranks) + ranks) % ranks;
            /* A faster rank may have put the next value already. */
            long there = ((volatile long *)memory)[from * (puts + 1) + put];
            if (there != at && there != at + 1) {
                fprintf(stderr, "weft-mpi: rank %d: after fence %ld a put has not come\n", rank, at);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    qsort(times, iterations, sizeof *times, by_value);
    double mine = times[iterations / 2], most = 0;
    for (int other = 0; other < ranks; other++) {
        double theirs = mine;
        if (rank == 0 && other > 0)
            MPI_Recv(&theirs, sizeof theirs, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        most = theirs > most ? theirs : most;
    }
    if (rank > 0)
        MPI_Send(&mine, sizeof mine, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    else
        printf("weft-mpi puts=%ld us=%.3f\n", puts, most);
    MPI_Win_free(&window);
    free(memory);
    free(times);
}

int main(int count, char **words)
{
    int rank, ranks;
    if (count < 5)
        return 2;
    signal(SIGALRM, SIG_DFL);
    alarm(atol(words[3]));
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int word = 4; word < count; word++)
        measure(atol(words[word]), atol(words[1]), atol(words[2]), rank, ranks);
    MPI_Finalize();
    return 0;
}
