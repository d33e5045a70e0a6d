/* One rank of a job across two clusters: `across SIZE ROUNDS WARMUP SECONDS`. A ring, an all-to-all and a halo with
 * messages of SIZE bytes, then the bucket sort of the examples, in which each rank sends about SIZE bytes of keys to
 * each other one. All results are checked. The first rank prints a line, `weft-mpi NAME=VALUE ...` with microseconds of
 * a round, and then what the bucket sort prints. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "mpi.h"

/* The example as it is, as a function: it is part of a program that has begun, and that goes on. */
#define main bucketsort
#define MPI_Init(count, words) ((void)(count), (void)(words))
#define MPI_Finalize() ((void)0)
#include "bucketsort.c"
#undef main
#undef MPI_Init
#undef MPI_Finalize

enum { SAME = 1, LEFT = 2, RIGHT = 3 };

static int own, ranks, size;
static unsigned char *out, *in;

static void fail(const char *what)
{
    fprintf(stderr, "weft-mpi: rank %d: %s\n", own, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(int is_good, const char *what)
{
    if (!is_good)
        fail(what);
}

/* What a rank sends to another in a round. */
static unsigned char content(int from, int to, long round)
{
    return (unsigned char)(17 * from + 5 * to + round);
}

/* A message goes round all ranks, and each adds one to its first byte. */
static void ring(long round)
{
    int next = (own + 1) % ranks, before = (own + ranks - 1) % ranks;
    memset(out, (unsigned char)round, size);
    if (own == 0) {
        MPI_Send(out, size, MPI_BYTE, next, SAME, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, before, SAME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(in[0] == (unsigned char)(round + ranks - 1), "the ring brought another message than was sent");
        return;
    }
    MPI_Recv(in, size, MPI_BYTE, before, SAME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in[0]++;
    MPI_Send(in, size, MPI_BYTE, next, SAME, MPI_COMM_WORLD);
}

static void all_to_all(long round)
{
    for (int other = 0; other < ranks; other++)
        memset(out + (size_t)other * size, content(own, other, round), size);
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
    for (int other = 0; other < ranks; other++) {
        unsigned char wanted = content(other, own, round);
        const unsigned char *part = in + (size_t)other * size;
        check(part[0] == wanted && part[size - 1] == wanted, "the all-to-all brought other bytes than were sent");
    }
}

/* A face to each of both neighbours, and one from each. */
static void halo(long round)
{
    int left = (own + ranks - 1) % ranks, right = (own + 1) % ranks;
    MPI_Request requests[4];
    memset(out, content(own, left, round), size);
    memset(out + size, content(own, right, round), size);
    MPI_Irecv(in, size, MPI_BYTE, left, RIGHT, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + size, size, MPI_BYTE, right, LEFT, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, size, MPI_BYTE, left, LEFT, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out + size, size, MPI_BYTE, right, RIGHT, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    check(in[size - 1] == content(left, own, round) && in[size] == content(right, own, round),
          "the halo brought other bytes than were sent");
}

/* Microseconds of a round, of the rank that takes longest. */
static double measure(void (*pattern)(long), long rounds, long warmup)
{
    double began = 0, took, longest;
    for (long round = -warmup; round < rounds; round++) {
        if (round == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            began = MPI_Wtime();
        }
        pattern(round);
    }
    took = MPI_Wtime() - began;
    MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest * 1e6 / rounds;
}

/* On how many hosts the ranks are; the first rank knows. */
static int hosts(void)
{
    struct utsname here;
    size_t room_of_one = sizeof here.nodename;
    char (*names)[sizeof here.nodename] = calloc(ranks, room_of_one);
    if (!names)
        fail("no memory");
    uname(&here);
    memcpy(names[own], here.nodename, room_of_one);
    if (own > 0) {
        MPI_Send(names[own], (int)room_of_one, MPI_BYTE, 0, SAME, MPI_COMM_WORLD);
        free(names);
        return 0;
    }
    int count = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (rank > 0)
            MPI_Recv(names[rank], (int)room_of_one, MPI_BYTE, rank, SAME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int is_new = 1;
        for (int other = 0; other < rank; other++)
            is_new &= strncmp(names[other], names[rank], room_of_one) != 0;
        count += is_new;
    }
    free(names);
    return count;
}

int main(int count, char **words)
{
    if (count != 5)
        return 2;
    /* A rank ends with its launcher, and when it hangs. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(atoi(words[4]));
    size = atoi(words[1]);
    long rounds = atol(words[2]), warmup = atol(words[3]);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = malloc((size_t)size * (ranks > 2 ? ranks : 2));
    in = malloc((size_t)size * (ranks > 2 ? ranks : 2));
    if (!out || !in)
        fail("no memory");
    int places = hosts();
    double of_ring = measure(ring, rounds, warmup), of_all = measure(all_to_all, rounds, warmup);
    double of_halo = measure(halo, rounds, warmup);
    if (own == 0) {
        printf("weft-mpi hosts=%d ring_us=%.6f all_to_all_us=%.6f halo_us=%.6f\n", places, of_ring, of_all, of_halo);
        fflush(stdout);
    }
    char keys[24], times[24];
    long all_keys = (long)size * ranks / (long)sizeof(uint32_t);
    snprintf(keys, sizeof keys, "%ld", all_keys > 2 ? all_keys : 2);
    snprintf(times, sizeof times, "%ld", rounds);
    char *sorting[] = {"bucketsort", keys, times, NULL};
    int is_wrong = bucketsort(3, sorting);
    fflush(stdout);
    MPI_Finalize();
    return is_wrong;
}
