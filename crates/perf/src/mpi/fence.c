/* One rank of several that measure MPI_Win_fence: `fence FENCES WARMUP MICROSECONDS SECONDS LOAD...`: of each load so many fences, or as many as take so long, whichever
   are fewer (0 us: so many), behind a warm-up (-1: a tenth); after so many seconds it ends. What is between two fences is a load:
   puts:N                      8 bytes to each of the N next ranks
   halo:DIMENSIONS:CELLS:S     the faces of a block of cells of 8 bytes to all neighbours in a periodic grid; S: from and to where they lie
   overlap:BYTES               a put to the next rank, and computation for as long as put and fence take
   The first rank prints a line for each: `weft-mpi load=LOAD value=MEDIAN fences=N cpu=TIME`, in microseconds at the
   slowest rank, or for overlap the computation that was hidden at the worst rank in percent; and processor time of all
   ranks for one fence, in microseconds (not for overlap). `weft perf` measures Weft's windows in the same way. */

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

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *times, long count)
{
    qsort(times, count, sizeof *times, by_value);
    return times[count / 2];
}

/* The largest of the values of all ranks, or the smallest, at all ranks. */
static double worst(double mine, int rank, int ranks, int largest)
{
    double most = mine;
    for (int other = 1; other < ranks; other++) {
        double theirs;
        if (rank == 0) {
            MPI_Recv(&theirs, sizeof theirs, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            most = (theirs > most) == largest ? theirs : most;
        } else if (rank == other) {
            MPI_Send(&mine, sizeof mine, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    for (int other = 1; other < ranks; other++) {
        if (rank == 0)
            MPI_Send(&most, sizeof most, MPI_BYTE, other, 2, MPI_COMM_WORLD);
        else if (rank == other)
            MPI_Recv(&most, sizeof most, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return most;
}

static int rank, ranks;
/* Processor time of this rank for each of the fences that were measured last. */
static double own_cpu_us;

static void report(const char *load, double mine, long fences, int largest)
{
    double value = worst(mine, rank, ranks, largest), all = 0;
    MPI_Reduce(&own_cpu_us, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("weft-mpi load=%s value=%.3f fences=%ld", load, value, fences);
        if (largest)
            printf(" cpu=%.3f", all);
        printf("\n");
        fflush(stdout);
    }
}

/* Fences before anything is known, and the fewest that are measured. */
#define PROBES 3
#define FEWEST 5

static long most_fences, warmup_fences;
static double budget_us;

/* One turn: what is between two fences, and the second; it takes so many microseconds. Turns are counted. */
typedef double turn_of(void *load, long at);

/* The median of as many turns as were asked for, which all ranks agree on. */
static double measure_turns(turn_of *turn, void *load, long *fences)
{
    long at = 0, count = most_fences;
    if (budget_us > 0) {
        double each = 1e12;
        for (; at < PROBES; at++) {
            double took = turn(load, at);
            each = took < each ? took : each;
        }
        double fit = budget_us / (worst(each, rank, ranks, 1) + 1e-3);
        count = fit < count ? (long)fit : count;
        count = count < FEWEST ? FEWEST : count;
    }
    long warmup = warmup_fences < 0 ? (count + 9) / 10 : warmup_fences;
    double *times = calloc(count, sizeof *times);
    if (!times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long end = at + warmup; at < end; at++)
        turn(load, at);
    double before = cpu_us();
    for (long each = 0; each < count; each++, at++)
        times[each] = turn(load, at);
    own_cpu_us = (cpu_us() - before) / count;
    double middle = median(times, count);
    free(times);
    *fences = count;
    return middle;
}

struct puts {
    long puts, *memory;
    MPI_Win window;
};

static double turn_of_puts(void *load, long at)
{
    struct puts *of = load;
    long value = at, puts = of->puts;
    double start = now_us();
    for (long put = 0; put < puts; put++)
        MPI_Put(&value, sizeof value, MPI_BYTE, (rank + 1 + put) % ranks, rank * (puts + 1) + put, sizeof value, MPI_BYTE, of->window);
    MPI_Win_fence(0, of->window);
    double took = now_us() - start;
    for (long put = 0; put < puts; put++) {
        long from = (((rank - 1 - put) % ranks) + ranks) % ranks;
        /* A faster rank may have put the next value already. */
        long there = ((volatile long *)of->memory)[from * (puts + 1) + put];
        if (there != at && there != at + 1) {
            fprintf(stderr, "weft-mpi: rank %d: after fence %ld a put has not come\n", rank, at);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    return took;
}

static void measure_puts(const char *word, long puts)
{
    struct puts of = {puts, calloc(ranks * (puts + 1), sizeof *of.memory)};
    long fences;
    if (!of.memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(of.memory, ranks * (puts + 1) * sizeof *of.memory, sizeof *of.memory, MPI_INFO_NULL, MPI_COMM_WORLD, &of.window);
    MPI_Win_fence(0, of.window);
    double middle = measure_turns(turn_of_puts, &of, &fences);
    report(word, middle, fences, 1);
    MPI_Win_free(&of.window);
    free(of.memory);
}

/* As even a grid as there is: the largest prime factors first, each to the smallest dimension. */
static void make_grid(int dimensions, int grid[3])
{
    int factors[32], count = 0, left = ranks;
    grid[0] = grid[1] = grid[2] = 1;
    for (int factor = 2; factor <= ranks; factor++)
        for (; left % factor == 0; left /= factor)
            factors[count++] = factor;
    while (count > 0) {
        int smallest = 0;
        for (int axis = 1; axis < dimensions; axis++)
            smallest = grid[axis] < grid[smallest] ? axis : smallest;
        grid[smallest] *= factors[--count];
    }
}

struct face {
    int neighbour, count;
    MPI_Datatype type;
    long from, to, extent;
};

static int make_faces(struct face *faces, int dimensions, long cells, int strided)
{
    int grid[3], count = 0;
    long packed = 0, step[3];
    make_grid(dimensions, grid);
    for (int axis = dimensions - 1; axis >= 0; axis--)
        step[axis] = axis == dimensions - 1 ? 8 : step[axis + 1] * (cells + 2);
    for (int axis = 0; axis < dimensions; axis++) {
        long base = 0, bytes = 8, extent = 8;
        int apart = 1;
        MPI_Datatype type, longer;
        MPI_Type_vector(1, 8, 8, MPI_BYTE, &type);
        for (int other = dimensions - 1; other >= 0; other--) {
            if (other == axis)
                continue;
            MPI_Type_create_hvector(cells, 1, step[other], type, &longer);
            MPI_Type_free(&type);
            type = longer;
            base += step[other];
            bytes *= cells;
            extent += (cells - 1) * step[other];
        }
        MPI_Type_commit(&type);
        for (int other = axis + 1; other < 3; other++)
            apart *= grid[other];
        int here = rank / apart % grid[axis];
        for (int up = 0; up < 2; up++) {
            struct face *face = &faces[count];
            int there = (here + (up ? 1 : grid[axis] - 1)) % grid[axis];
            face->neighbour = rank + (there - here) * apart;
            if (face->neighbour == rank)
                continue;
            count++;
            face->type = strided ? type : MPI_BYTE;
            face->count = strided ? 1 : bytes;
            face->extent = strided ? extent : bytes;
            face->from = strided ? base + (up ? cells : 1) * step[axis] : packed;
            face->to = strided ? base + (up ? 0 : cells + 1) * step[axis] : packed;
            packed += bytes;
        }
    }
    return count;
}

struct halo {
    struct face faces[6];
    int count;
    char *memory, *source;
    MPI_Win window;
};

static double turn_of_halo(void *load, long at)
{
    struct halo *of = load;
    struct face *end = of->faces + of->count;
    for (struct face *face = of->faces; face < end; face++) {
        memcpy(of->source + face->from, &at, sizeof at);
        memcpy(of->source + face->from + face->extent - 8, &at, sizeof at);
    }
    double start = now_us();
    for (struct face *face = of->faces; face < end; face++)
        MPI_Put(of->source + face->from, face->count, face->type, face->neighbour, face->to, face->count, face->type, of->window);
    MPI_Win_fence(0, of->window);
    double took = now_us() - start;
    for (struct face *face = of->faces; face < end; face++)
        for (int last = 0; last < 2; last++) {
            long there = *(volatile long *)(of->memory + face->to + last * (face->extent - 8));
            if (there != at && there != at + 1) {
                fprintf(stderr, "weft-mpi: rank %d: after fence %ld a face has not come\n", rank, at);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    return took;
}

static void measure_halo(const char *word, int dimensions, long cells, int strided)
{
    struct halo of;
    long bytes = 8, fences;
    for (int axis = 0; axis < dimensions; axis++)
        bytes *= cells + 2;
    of.count = make_faces(of.faces, dimensions, cells, strided);
    of.memory = calloc(bytes, 1);
    of.source = calloc(bytes, 1);
    if (!of.memory || !of.source)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(of.memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &of.window);
    MPI_Win_fence(0, of.window);
    double middle = measure_turns(turn_of_halo, &of, &fences);
    report(word, middle, fences, 1);
    MPI_Win_free(&of.window);
    free(of.memory);
    free(of.source);
}

/* Real work, of which each step needs the one before. */
static __attribute__((noinline)) void work(unsigned long units)
{
    volatile unsigned long sink;
    unsigned long state = 0x9e3779b97f4a7c15;
    while (units-- > 0)
        state = state * 0x5851f42d4c957f2d + 1;
    sink = state;
    (void)sink;
}

static double units_per_us(void)
{
    double fastest = 1e9;
    for (int batch = 0; batch < 200; batch++) {
        double start = now_us();
        work(20000);
        double took = now_us() - start;
        fastest = took < fastest ? took : fastest;
    }
    return 20000 / (fastest > 1e-3 ? fastest : 1e-3);
}

struct overlap {
    char *source;
    long bytes;
    unsigned long units;
    int to;
    MPI_Win window;
};

static double turn_of_overlap(void *load, long at)
{
    struct overlap *of = load;
    of->source[0] = at;
    double start = now_us();
    MPI_Put(of->source, of->bytes, MPI_BYTE, of->to, 0, of->bytes, MPI_BYTE, of->window);
    work(of->units);
    MPI_Win_fence(0, of->window);
    return now_us() - start;
}

static void measure_overlap(const char *word, long bytes)
{
    struct overlap of = {calloc(bytes, 1), bytes, 0, (rank + 1) % ranks};
    char *memory = calloc(bytes, 1);
    double speed = units_per_us();
    long fences;
    if (!memory || !of.source)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &of.window);
    MPI_Win_fence(0, of.window);
    double alone = worst(measure_turns(turn_of_overlap, &of, &fences), rank, ranks, 1);
    of.units = alone * speed;
    double beside = measure_turns(turn_of_overlap, &of, &fences);
    double hidden = (2 * alone - beside) / alone * 100;
    report(word, hidden < 0 ? 0 : hidden > 100 ? 100 : hidden, fences, 0);
    MPI_Win_free(&of.window);
    free(memory);
    free(of.source);
}

static void measure(const char *word)
{
    long puts, cells, bytes;
    int dimensions, strided;
    if (sscanf(word, "puts:%ld", &puts) == 1)
        measure_puts(word, puts);
    else if (sscanf(word, "halo:%d:%ld:%d", &dimensions, &cells, &strided) == 3)
        measure_halo(word, dimensions, cells, strided);
    else if (sscanf(word, "overlap:%ld", &bytes) == 1)
        measure_overlap(word, bytes);
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
}

int main(int count, char **words)
{
    if (count < 6)
        return 2;
    most_fences = atol(words[1]);
    warmup_fences = atol(words[2]);
    budget_us = atof(words[3]);
    signal(SIGALRM, SIG_DFL);
    alarm(atol(words[4]));
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int word = 5; word < count; word++)
        measure(words[word]);
    MPI_Finalize();
    return 0;
}
