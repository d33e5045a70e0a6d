/* What programs do that are spread over clusters: a ring, an all-to-all, and a halo of a ring of cells. Each is
 * checked.
 *
 * across [ROUNDS]: rank 0 prints a line for each, with the microseconds of a round. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 2048, CELLS = 1024 };

static int rank, ranks, rounds = 20;

static void check(int good, const char *what, double began)
{
    int all_good;
    double took = MPI_Wtime() - began, longest;
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s, %.0f us a round\n", what, all_good ? "well" : "WRONG", longest * 1e6 / rounds);
    if (!all_good)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A word goes round, and each rank adds one. */
static void ring(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, word = 0;
    double began = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        if (rank > 0)
            MPI_Recv(&word, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        word++;
        MPI_Send(&word, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(&word, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    check(rank > 0 || word == rounds * ranks, "ring", began);
}

static void all_to_all(void)
{
    int *out = malloc(sizeof *out * WORDS * ranks), *in = calloc(WORDS * ranks, sizeof *in), good = 1;
    double began = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        for (int index = 0; index < WORDS * ranks; index++)
            out[index] = round + rank * ranks * WORDS + index;
        MPI_Alltoall(out, WORDS, MPI_INT, in, WORDS, MPI_INT, MPI_COMM_WORLD);
        for (int index = 0; index < WORDS * ranks; index++)
            good &= in[index] == round + index / WORDS * ranks * WORDS + rank * WORDS + index % WORDS;
    }
    check(good, "all-to-all", began);
    free(out);
    free(in);
}

/* Each cell becomes the sum of its neighbours, modulo a prime: the ranks together compute what one alone does. */
static void halo(void)
{
    enum { PRIME = 65521 };
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks, all = CELLS * ranks, good = 1;
    int *cells = malloc(sizeof *cells * (CELLS + 2)), *next = malloc(sizeof *next * (CELLS + 2));
    int *alone = malloc(sizeof *alone * all), *then = malloc(sizeof *then * all);
    for (int index = 0; index < all; index++)
        alone[index] = index % PRIME;
    for (int index = 1; index <= CELLS; index++)
        cells[index] = (rank * CELLS + index - 1) % PRIME;
    double began = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        MPI_Sendrecv(&cells[CELLS], 1, MPI_INT, right, 1, &cells[0], 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&cells[1], 1, MPI_INT, left, 2, &cells[CELLS + 1], 1, MPI_INT, right, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int index = 1; index <= CELLS; index++)
            next[index] = (cells[index - 1] + cells[index + 1]) % PRIME;
        int *swap = cells;
        cells = next, next = swap;
    }
    for (int round = 0; round < rounds; round++) {
        for (int index = 0; index < all; index++)
            then[index] = (alone[(index + all - 1) % all] + alone[(index + 1) % all]) % PRIME;
        int *swap = alone;
        alone = then, then = swap;
    }
    for (int index = 0; index < CELLS; index++)
        good &= cells[index + 1] == alone[rank * CELLS + index];
    check(good, "halo", began);
    free(cells);
    free(next);
    free(alone);
    free(then);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count > 1)
        rounds = atoi(words[1]);
    ring();
    all_to_all();
    halo();
    MPI_Finalize();
    return 0;
}
