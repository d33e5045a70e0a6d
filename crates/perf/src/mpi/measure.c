/* One rank of those that measure an MPI library: `measure TEST SIZE ITERATIONS WARMUP WINDOW SECONDS`. There are two, or
   any number for `allreduce` and `alltoall`. The same program whatever carries the messages. The first rank prints one line: `weft-mpi NAME=VALUE ...`. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "mpi.h"

enum { DATA = 1, DONE = 2, SYNC = 3 };

/* Receives that are posted at a time have memory of their own, but no more of it than caches hold. */
enum { BYTES_POSTED = 4 << 20, LEAST_POSTED = 4 };

/* Before a transfer is timed, so much goes over the link in each direction: a link with a rate saves up while it is idle, and would
   carry the first bytes faster than that. */
enum { DRAIN = 256 << 10 };

/* Computation lasts so many times as long as the transfer alone: all of the transfer can hide in it. */
static const double COMPUTATION = 1.25;

static int rank;
static int size;
static long iterations, warmup;
static int window;
static char *out, *in;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static double cpu_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *reason)
{
    fprintf(stderr, "weft-mpi: rank %d: %s\n", rank, reason);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Prints a figure of the first rank, and with a second name that of the other rank too. */
static void report(const char *mine, const char *others, double value)
{
    if (rank == 1) {
        MPI_Send(&value, sizeof value, MPI_BYTE, 0, SYNC, MPI_COMM_WORLD);
        return;
    }
    double theirs;
    MPI_Recv(&theirs, sizeof theirs, MPI_BYTE, 1, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf(" %s=%.6f", mine, value);
    if (others)
        printf(" %s=%.6f", others, theirs);
}

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory)
        fail("no memory");
    memset(memory, 0x5a, bytes);
    return memory;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double percentile(double *sorted, long count, double share)
{
    double position = (count - 1) * share;
    long below = (long)position;
    long above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (position - below);
}

static double median(double *times, long count)
{
    qsort(times, count, sizeof *times, by_value);
    return percentile(times, count, 0.5);
}

static void check(const char *bytes)
{
    if (bytes[0] != 0x5a || bytes[size - 1] != 0x5a)
        fail("a message has other bytes than were sent");
}

/* Ping-pong. Half of each round trip counts, and a lap starts where the last one ended, so that nothing is left out. */
static void latency(void)
{
    double *times = room(iterations * sizeof *times);
    double last = now_us();
    memset(in, 0, size);
    for (long at = -warmup; at < iterations; at++) {
        if (rank == 0)
            MPI_Send(out, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
        double now = now_us();
        if (at >= 0)
            times[at] = (now - last) / 2;
        last = now;
    }
    check(in);
    report("half_us", NULL, median(times, iterations));
    report("half_p99_us", NULL, percentile(times, iterations, 0.99));
}

/* Sends with a sliding window: the oldest is waited for when all are under way. Over when the receiver says so. */
static void pour(long count, MPI_Request *requests)
{
    for (long at = 0; at < count; at++) {
        MPI_Request *place = &requests[at % window];
        if (at >= window)
            MPI_Wait(place, MPI_STATUS_IGNORE);
        MPI_Isend(out, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, place);
    }
    MPI_Waitall(count < window ? count : window, requests, MPI_STATUSES_IGNORE);
    char done;
    MPI_Recv(&done, 1, MPI_BYTE, 1, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void drain(long count, long posted, MPI_Request *requests)
{
    if (posted > count)
        posted = count;
    for (long at = 0; at < count + posted; at++) {
        long place = at % posted;
        if (at >= posted)
            MPI_Wait(&requests[place], MPI_STATUS_IGNORE);
        if (at < count)
            MPI_Irecv(in + place * size, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[place]);
    }
    check(in);
    char done = 1;
    MPI_Send(&done, 1, MPI_BYTE, 0, DONE, MPI_COMM_WORLD);
}

/* A stream with a window: messages per second. */
static void stream(long posted)
{
    MPI_Request *requests = room((window > posted ? window : posted) * sizeof *requests);
    double start = 0, cpu = 0;
    for (int part = 0; part < 2; part++) {
        long count = part == 0 ? warmup : iterations;
        memset(in, 0, size);
        start = now_us();
        cpu = cpu_s();
        if (rank == 0)
            pour(count, requests);
        else
            drain(count, posted, requests);
    }
    double seconds = (now_us() - start) / 1e6;
    report("sender_cpu", "receiver_cpu", (cpu_s() - cpu) / (iterations * (double)size / 1e9));
    report("messages_per_s", NULL, iterations / seconds);
}

/* Work that is counted, not timed: who is disturbed takes longer for the same. */
static void compute(long units)
{
    volatile unsigned long result;
    unsigned long state = 0x9e3779b97f4a7c15ul;
    for (long at = 0; at < units; at++)
        state = state * 0x5851f42d4c957f2dul + 1;
    result = state;
    (void)result;
}

static double units_per_us(void)
{
    enum { BATCH = 20000, BATCHES = 200 };
    double fastest = 1e9;
    for (int at = 0; at < BATCHES; at++) {
        double start = now_us();
        compute(BATCH);
        double time = now_us() - start;
        fastest = time < fastest ? time : fastest;
    }
    return BATCH / fastest;
}

/* Both begin together, on a link that has saved nothing up. */
static void begin(void)
{
    static char *there, *back;
    if (!there) {
        there = room(DRAIN);
        back = room(DRAIN);
    }
    for (int round = 0; round < 2; round++) {
        int bytes = round == 0 ? DRAIN : 1;
        MPI_Sendrecv(there, bytes, MPI_BYTE, 1 - rank, SYNC, back, bytes, MPI_BYTE, 1 - rank, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* A message from the first rank to the other, or one each: both ranks begin it, compute for so long, and wait. Microseconds. */
static double transfer(int both_ways, long units)
{
    MPI_Request requests[2];
    int count = 0;
    begin();
    double start = now_us();
    if (both_ways || rank == 1)
        MPI_Irecv(in, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &requests[count++]);
    if (both_ways || rank == 0)
        MPI_Isend(out, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &requests[count++]);
    if (units)
        compute(units);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    return now_us() - start;
}

/* A round is over when both ranks are done with it, which have begun together. */
static double rounds(double *times)
{
    if (rank == 1) {
        MPI_Send(times, iterations * sizeof *times, MPI_BYTE, 0, SYNC, MPI_COMM_WORLD);
        return 0;
    }
    double *theirs = room(iterations * sizeof *theirs);
    MPI_Recv(theirs, iterations * sizeof *theirs, MPI_BYTE, 1, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long at = 0; at < iterations; at++)
        times[at] = theirs[at] > times[at] ? theirs[at] : times[at];
    free(theirs);
    return median(times, iterations);
}

/* The length of a computation is settled by both, so that both have the same to do. */
static long agree(double mine)
{
    double theirs;
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, 1 - rank, SYNC, &theirs, sizeof theirs, MPI_BYTE, 1 - rank, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mine > theirs ? mine : theirs;
}

/* Transfer alone, computation alone, both together, round by round, so that what disturbs the machine disturbs all of them. */
static void overlap(int both_ways)
{
    double *alone = room(iterations * sizeof *alone), *computing = room(iterations * sizeof *computing);
    double *both = room(iterations * sizeof *both);
    double fastest = 1e12;
    for (long at = 0; at < warmup; at++) {
        double time = transfer(both_ways, 0);
        fastest = time < fastest ? time : fastest;
    }
    long units = agree(fastest * COMPUTATION * units_per_us());
    memset(in, 0, size);
    for (long at = 0; at < iterations; at++) {
        alone[at] = transfer(both_ways, 0);
        begin();
        double start = now_us();
        compute(units);
        computing[at] = now_us() - start;
        both[at] = transfer(both_ways, units);
    }
    if (both_ways || rank == 1)
        check(in);
    report("communication_us", NULL, rounds(alone));
    report("computation_us", NULL, rounds(computing));
    report("both_us", NULL, rounds(both));
}

/* A collective operation; the first rank holds the watch. */
static void allreduce(void)
{
    double *times = room(iterations * sizeof *times);
    memset(in, 0, size);
    double last = now_us();
    for (long at = -warmup; at < iterations; at++) {
        MPI_Allreduce(out, in, size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        double now = now_us();
        if (at >= 0)
            times[at] = now - last;
        last = now;
    }
    check(in);
    double middle = median(times, iterations);
    if (rank == 0)
        printf(" collective_us=%.6f collective_p99_us=%.6f", middle, percentile(times, iterations, 0.99));
}

/* All ranks talk to all others, and what comes is checked. It is timed from outside, with the start and the end of all. */
static void alltoall(int ranks)
{
    char *from = room((size_t)ranks * size), *to = room((size_t)ranks * size);
    for (int other = 0; other < ranks; other++)
        memset(from + (size_t)other * size, rank ^ other, size);
    for (long at = 0; at < iterations; at++) {
        memset(to, 0x5a, (size_t)ranks * size);
        MPI_Alltoall(from, size, MPI_BYTE, to, size, MPI_BYTE, MPI_COMM_WORLD);
        for (size_t byte = 0; byte < (size_t)ranks * size; byte++)
            if (to[byte] != (char)(rank ^ (int)(byte / size)))
                fail("an all-to-all brought other bytes than were sent");
    }
    if (rank == 0)
        printf(" ranks=%d", ranks);
}

/* On how many hosts the two ranks are. */
static int hosts(void)
{
    struct utsname here, there;
    memset(&here, 0, sizeof here);
    uname(&here);
    MPI_Sendrecv(here.nodename, sizeof here.nodename, MPI_BYTE, 1 - rank, SYNC, there.nodename, sizeof there.nodename, MPI_BYTE, 1 - rank, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return strncmp(here.nodename, there.nodename, sizeof here.nodename) == 0 ? 1 : 2;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    /* Nobody waits for a rank whose launcher has gone, or that hangs. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(atoi(argv[6]));
    const char *test = argv[1];
    size = atoi(argv[2]);
    iterations = atol(argv[3]);
    warmup = atol(argv[4]);
    window = atoi(argv[5]);
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int together = strncmp(test, "all", 3) == 0;
    if (ranks != 2 && !together)
        fail("there must be two ranks");
    int count = together ? 1 : hosts();
    if (rank == 0)
        printf("weft-mpi hosts=%d", count);
    long posted = BYTES_POSTED / size > LEAST_POSTED ? BYTES_POSTED / size : LEAST_POSTED;
    posted = posted < window ? posted : window;
    out = room(size);
    in = room(posted * size);
    if (strcmp(test, "latency") == 0)
        latency();
    else if (strcmp(test, "stream") == 0)
        stream(posted);
    else if (strcmp(test, "allreduce") == 0)
        allreduce();
    else if (strcmp(test, "alltoall") == 0)
        alltoall(ranks);
    else
        overlap(strcmp(test, "exchange") == 0);
    if (rank == 0)
        printf("\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
