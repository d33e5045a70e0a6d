/* One rank of several that measure MPI_Win_fence: `fence ITERATIONS WARMUP SECONDS LOAD...`. What is between two fences is a load:
   puts:N                      8 bytes to each of the N next ranks
   halo:DIMENSIONS:CELLS:S     the faces of a block of cells of 8 bytes to all neighbours in a periodic grid; S: from and to where they lie
   overlap:BYTES               a put to the next rank, and computation for as long as put and fence take
   The first rank prints a line for each: `weft-mpi load=LOAD value=MEDIAN`, in microseconds at the slowest rank, or for overlap the computation that was hidden at the
   worst rank in percent. `weft perf` measures Weft's windows in the same way. */

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

static void report(const char *load, double mine, int rank, int ranks, int largest)
{
    double value = worst(mine, rank, ranks, largest);
    if (rank == 0)
        printf("weft-mpi load=%s value=%.3f\n", load, value);
}

static void measure_puts(const char *word, long puts, long iterations, long warmup, int rank, int ranks)
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
    report(word, median(times, iterations), rank, ranks, 1);
    MPI_Win_free(&window);
    free(memory);
    free(times);
}

/* As even a grid as there is: the largest prime factors first, each to the smallest dimension. */
static void make_grid(int ranks, int dimensions, int grid[3])
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

static int make_faces(struct face *faces, int dimensions, long cells, int strided, int rank, int ranks)
{
    int grid[3], count = 0;
    long packed = 0, step[3];
    make_grid(ranks, dimensions, grid);
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

static void measure_halo(const char *word, int dimensions, long cells, int strided, long iterations, long warmup, int rank, int ranks)
{
    struct face faces[6];
    int count = make_faces(faces, dimensions, cells, strided, rank, ranks);
    long bytes = 8;
    for (int axis = 0; axis < dimensions; axis++)
        bytes *= cells + 2;
    char *memory = calloc(bytes, 1), *source = calloc(bytes, 1);
    double *times = calloc(iterations, sizeof *times);
    MPI_Win window;
    if (!memory || !source || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    for (long at = -warmup; at < iterations; at++) {
        for (struct face *face = faces; face < faces + count; face++) {
            memcpy(source + face->from, &at, sizeof at);
            memcpy(source + face->from + face->extent - 8, &at, sizeof at);
        }
        double start = now_us();
        for (struct face *face = faces; face < faces + count; face++)
            MPI_Put(source + face->from, face->count, face->type, face->neighbour, face->to, face->count, face->type, window);
        MPI_Win_fence(0, window);
        if (at >= 0)
            times[at] = now_us() - start;
        for (struct face *face = faces; face < faces + count; face++)
            for (int end = 0; end < 2; end++) {
                long there = *(volatile long *)(memory + face->to + end * (face->extent - 8));
                if (there != at && there != at + 1) {
                    fprintf(stderr, "weft-mpi: rank %d: after fence %ld a face has not come\n", rank, at);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
            }
    }
    report(word, median(times, iterations), rank, ranks, 1);
    MPI_Win_free(&window);
    free(memory);
    free(source);
    free(times);
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

static double put_beside(char *source, long bytes, unsigned long units, long iterations, long warmup, double *times, int to, MPI_Win window)
{
    for (long at = -warmup; at < iterations; at++) {
        source[0] = at;
        double start = now_us();
        MPI_Put(source, bytes, MPI_BYTE, to, 0, bytes, MPI_BYTE, window);
        work(units);
        MPI_Win_fence(0, window);
        if (at >= 0)
            times[at] = now_us() - start;
    }
    return median(times, iterations);
}

static void measure_overlap(const char *word, long bytes, long iterations, long warmup, int rank, int ranks)
{
    char *memory = calloc(bytes, 1), *source = calloc(bytes, 1);
    double *times = calloc(iterations, sizeof *times), speed = units_per_us();
    MPI_Win window;
    if (!memory || !source || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    int to = (rank + 1) % ranks;
    double alone = worst(put_beside(source, bytes, 0, iterations, warmup, times, to, window), rank, ranks, 1);
    double beside = put_beside(source, bytes, alone * speed, iterations, warmup, times, to, window);
    double hidden = (2 * alone - beside) / alone * 100;
    report(word, hidden < 0 ? 0 : hidden > 100 ? 100 : hidden, rank, ranks, 0);
    MPI_Win_free(&window);
    free(memory);
    free(source);
    free(times);
}

static void measure(const char *word, long iterations, long warmup, int rank, int ranks)
{
    long puts, cells, bytes;
    int dimensions, strided;
    if (sscanf(word, "puts:%ld", &puts) == 1)
        measure_puts(word, puts, iterations, warmup, rank, ranks);
    else if (sscanf(word, "halo:%d:%ld:%d", &dimensions, &cells, &strided) == 3)
        measure_halo(word, dimensions, cells, strided, iterations, warmup, rank, ranks);
    else if (sscanf(word, "overlap:%ld", &bytes) == 1)
        measure_overlap(word, bytes, iterations, warmup, rank, ranks);
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
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
        measure(words[word], atol(words[1]), atol(words[2]), rank, ranks);
    MPI_Finalize();
    return 0;
}
