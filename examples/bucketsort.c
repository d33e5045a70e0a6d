/* A bucket sort across ranks, with the communication of the NAS benchmark IS: in each round an allreduce of the sizes
 * of buckets, an all-to-all of how many keys go where, and an all-to-allv of the keys themselves.
 *
 *     mpicc -O2 -o bucketsort examples/bucketsort.c
 *     weft lab up --cluster 2x4 --wan 8ms,1G
 *     weft lab mpiexec -n 8 ./bucketsort
 *
 * bucketsort [KEYS [ROUNDS]]: each rank has KEYS keys (65536), sorted ROUNDS times (10), two of them changed in
 * between. In the end all is checked: the order inside each rank and from rank to rank, the number of keys, and their
 * sum and mix. Rank 0 prints the keys that were sorted in a second, and a digest that depends on the keys and the ranks
 * alone. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 20, BUCKET_BITS = 10, BUCKETS = 1 << BUCKET_BITS, MOST_KEYS = 1 << 24 };

struct keys {
    uint32_t *all;
    int count;
};

struct job {
    int rank, ranks, keys, rounds;
};

static void *room(size_t count, size_t size)
{
    void *all = calloc(count ? count : 1, size);
    if (!all) {
        fprintf(stderr, "bucketsort: no memory for %zu bytes\n", count * size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return all;
}

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* The mean of four random numbers: most keys are in the middle, so that buckets have different sizes. */
static uint32_t key(uint64_t number)
{
    uint64_t random = mix(number), sum = 0;
    for (int part = 0; part < 4; part++)
        sum += (random >> (16 * part)) & 0xffff;
    return (uint32_t)(sum << (KEY_BITS - 16)) >> 2;
}

static int bucket_of(uint32_t key)
{
    return (int)(key >> (KEY_BITS - BUCKET_BITS));
}

/* Which rank sorts each bucket: in the order of the ranks, about as many keys for each. */
static void share_out(const struct job *job, const int64_t *sizes, int *owner)
{
    int64_t all = (int64_t)job->keys * job->ranks, before = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        owner[bucket] = (int)(before * job->ranks / all);
        if (owner[bucket] >= job->ranks)
            owner[bucket] = job->ranks - 1;
        before += sizes[bucket];
    }
}

/* The keys in the order of their buckets. */
static void order(const struct keys *own, uint32_t *ordered, const int64_t *sizes)
{
    int64_t starts[BUCKETS], before = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        starts[bucket] = before;
        before += sizes[bucket];
    }
    for (int index = 0; index < own->count; index++)
        ordered[starts[bucket_of(own->all[index])]++] = own->all[index];
}

static int places(int ranks, const int *counts, int *starts)
{
    int sum = 0;
    for (int rank = 0; rank < ranks; rank++) {
        starts[rank] = sum;
        sum += counts[rank];
    }
    return sum;
}

static int compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* A round: what comes back are this rank's keys of all, sorted. */
static struct keys sort(const struct job *job, const struct keys *own)
{
    int64_t sizes[BUCKETS] = {0}, all_sizes[BUCKETS];
    int owner[BUCKETS];
    for (int index = 0; index < own->count; index++)
        sizes[bucket_of(own->all[index])]++;
    MPI_Allreduce(sizes, all_sizes, BUCKETS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    share_out(job, all_sizes, owner);

    int *counts = room(4 * (size_t)job->ranks, sizeof *counts);
    int *starts = counts + job->ranks, *coming = starts + job->ranks, *places_coming = coming + job->ranks;
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        counts[owner[bucket]] += (int)sizes[bucket];
    uint32_t *ordered = room(own->count, sizeof *ordered);
    order(own, ordered, sizes);
    MPI_Alltoall(counts, 1, MPI_INT, coming, 1, MPI_INT, MPI_COMM_WORLD);
    places(job->ranks, counts, starts);

    struct keys sorted = {.count = places(job->ranks, coming, places_coming)};
    sorted.all = room(sorted.count, sizeof *sorted.all);
    MPI_Alltoallv(ordered, counts, starts, MPI_UINT32_T, sorted.all, coming, places_coming, MPI_UINT32_T,
                  MPI_COMM_WORLD);
    qsort(sorted.all, sorted.count, sizeof *sorted.all, compare);
    free(counts);
    free(ordered);
    return sorted;
}

/* What is the same before and after, in whatever order: how many keys, their sum, and the sum of what mix() makes of
 * each. */
static void tally(const struct keys *keys, uint64_t *sums)
{
    uint64_t own[3] = {keys->count, 0, 0};
    for (int index = 0; index < keys->count; index++) {
        own[1] += keys->all[index];
        own[2] += mix(keys->all[index]);
    }
    MPI_Allreduce(own, sums, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* Whether the keys rise inside each rank, and none is below the greatest of the ranks before. */
static int is_sorted(const struct job *job, const struct keys *sorted)
{
    int good = 1, all_good;
    for (int index = 1; index < sorted->count; index++)
        good &= sorted->all[index - 1] <= sorted->all[index];
    int64_t greatest = -1, before = -1;
    if (sorted->count)
        greatest = sorted->all[sorted->count - 1];
    MPI_Exscan(&greatest, &before, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (job->rank > 0 && sorted->count)
        good &= before <= sorted->all[0];
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all_good;
}

static int number(const char *text, int least, int most, const char *what)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < least || value > most) {
        fprintf(stderr, "bucketsort: %s is \"%s\"; a number from %d to %d is needed\n", what, text, least, most);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (int)value;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    struct job job = {.keys = 1 << 16, .rounds = 10};
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (count > 1)
        job.keys = number(words[1], 2, MOST_KEYS, "KEYS");
    if (count > 2)
        job.rounds = number(words[2], 1, 1000000, "ROUNDS");

    struct keys own = {.all = room(job.keys, sizeof *own.all), .count = job.keys}, sorted = {0};
    for (int index = 0; index < job.keys; index++)
        own.all[index] = key((uint64_t)job.rank * MOST_KEYS + index);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int round = 0; round < job.rounds; round++) {
        own.all[0] = round % (1 << KEY_BITS);
        own.all[1] = (1 << KEY_BITS) - 1 - round % (1 << KEY_BITS);
        free(sorted.all);
        sorted = sort(&job, &own);
    }
    double took = MPI_Wtime() - began, longest;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

    uint64_t before[3], after[3];
    tally(&own, before);
    tally(&sorted, after);
    int good = is_sorted(&job, &sorted) && !memcmp(before, after, sizeof before);
    if (job.rank == 0) {
        double keys = (double)job.keys * job.ranks * job.rounds;
        printf("%d ranks, %d keys each: %.2f million keys/s, %.3f ms a round\n", job.ranks, job.keys,
               keys / longest / 1e6, longest * 1e3 / job.rounds);
        printf(good ? "sorted %016" PRIx64 "\n" : "NOT SORTED %016" PRIx64 "\n", after[2]);
    }
    free(own.all);
    free(sorted.all);
    MPI_Finalize();
    return !good;
}
