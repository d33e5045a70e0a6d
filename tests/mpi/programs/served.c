/* Programs whose windows Weft serves, or leaves to the MPI library with a word. The argument says which; rank 0 prints
 * "WHICH: well" if all ranks have found what they should. */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks;

static void pause_ms(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

/* Windows that are older than the longest wait before a rank is asked whether it lives. The first to leave
 * MPI_Win_free are gone while others are still in it. */
static int old(void)
{
    int wrong = 0;
    for (int round = 0; round < 4; round++) {
        int *cell;
        MPI_Win win;
        MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &win);
        *cell = -1;
        MPI_Win_fence(0, win);
        pause_ms(1100);
        MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        wrong += *cell != (rank + ranks - 1) % ranks;
        MPI_Win_free(&win);
    }
    return wrong;
}

enum { PAIRS = 5, ROUNDS = 300, GAP = 0x5a };

/* A pair of MPI_MINLOC as C has it: the value, at "place" where it is. */
struct kind {
    MPI_Datatype type;
    size_t size, place;
};

static void kinds(struct kind *all)
{
    struct { short value; int place; } s;
    struct { float value; int place; } f;
    struct { double value; int place; } d;
    struct { long value; int place; } l;
    struct { long double value; int place; } x;
    all[0] = (struct kind){MPI_SHORT_INT, sizeof s, (char *)&s.place - (char *)&s};
    all[1] = (struct kind){MPI_FLOAT_INT, sizeof f, (char *)&f.place - (char *)&f};
    all[2] = (struct kind){MPI_DOUBLE_INT, sizeof d, (char *)&d.place - (char *)&d};
    all[3] = (struct kind){MPI_LONG_INT, sizeof l, (char *)&l.place - (char *)&l};
    all[4] = (struct kind){MPI_LONG_DOUBLE_INT, sizeof x, (char *)&x.place - (char *)&x};
}

static void write_pair(const struct kind *kind, char *to, int value, int place)
{
    memset(to, GAP, kind->size);
    if (kind->type == MPI_SHORT_INT)
        *(short *)to = value;
    else if (kind->type == MPI_FLOAT_INT)
        *(float *)to = value;
    else if (kind->type == MPI_DOUBLE_INT)
        *(double *)to = value;
    else if (kind->type == MPI_LONG_INT)
        *(long *)to = value;
    else
        *(long double *)to = value;
    *(int *)(to + kind->place) = place;
}

static int value_of(const struct kind *kind, const char *from)
{
    if (kind->type == MPI_SHORT_INT)
        return *(const short *)from;
    if (kind->type == MPI_FLOAT_INT)
        return *(const float *)from;
    if (kind->type == MPI_DOUBLE_INT)
        return *(const double *)from;
    if (kind->type == MPI_LONG_INT)
        return *(const long *)from;
    return *(const long double *)from;
}

static int is_pair(const struct kind *kind, const char *from, int value, int place)
{
    return value_of(kind, from) == value && *(const int *)(from + kind->place) == place;
}

/* Bytes of a pair that belong to none of its two parts are as they were. */
static int has_gaps(const struct kind *kind, const char *from)
{
    int gaps = 1;
    size_t first = kind->type == MPI_SHORT_INT ? sizeof(short) : kind->place;
    for (size_t at = 0; at < kind->size; at++)
        if ((at >= first && at < kind->place) || at >= kind->place + sizeof(int))
            gaps &= from[at] == GAP;
    return gaps;
}

/* All write pairs of two equal numbers, and read: never the halves of two. */
static int whole_pairs(const struct kind *kind, MPI_Win win)
{
    int wrong = 0;
    char mine[64], found[64];
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        int value = rank * ROUNDS + round;
        write_pair(kind, mine, value, value);
        write_pair(kind, found, -1, -2);
        if (rank % 2)
            MPI_Accumulate(mine, 1, kind->type, 0, 0, 1, kind->type, MPI_REPLACE, win);
        else
            MPI_Fetch_and_op(mine, found, kind->type, 0, 0, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        MPI_Fetch_and_op(NULL, found, kind->type, 0, 0, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
        wrong += value_of(kind, found) != *(int *)(found + kind->place) || !has_gaps(kind, found);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    return wrong;
}

/* Several pairs at once, in epochs of fences: each rank has the least value of some, and all have the same greatest. */
static int located_pairs(const struct kind *kind, char *window, MPI_Win win)
{
    enum { MANY = 8 };
    int wrong = 0;
    char mine[MANY * 32];
    for (int at = 0; at < MANY; at++)
        write_pair(kind, window + at * kind->size, 50, 50);
    for (int round = 0; round < 6; round++) {
        for (int at = 0; at < MANY; at++)
            write_pair(kind, mine + at * kind->size, at % ranks == rank ? 40 - round : 45, 60 + rank);
        MPI_Win_fence(0, win);
        for (int to = 0; to < ranks; to++)
            MPI_Accumulate(mine, MANY, kind->type, to, 0, MANY, kind->type, MPI_MINLOC, win);
        MPI_Win_fence(0, win);
        for (int at = 0; at < MANY; at++)
            wrong += !is_pair(kind, window + at * kind->size, 40 - round, 60 + at % ranks);
    }
    for (int at = 0; at < MANY; at++)
        write_pair(kind, mine + at * kind->size, 60, ranks - rank);
    MPI_Win_fence(0, win);
    for (int to = 0; to < ranks; to++)
        MPI_Accumulate(mine, MANY, kind->type, to, 0, MANY, kind->type, MPI_MAXLOC, win);
    MPI_Win_fence(0, win);
    for (int at = 0; at < MANY; at++)
        wrong += !is_pair(kind, window + at * kind->size, 60, 1) || !has_gaps(kind, window + at * kind->size);
    /* A put leaves the gaps alone, too; and each rank has its own pair at each other one. */
    write_pair(kind, mine, rank, rank + 100);
    memset(mine + (kind->type == MPI_SHORT_INT ? sizeof(short) : kind->place + sizeof(int)), 0x33,
           kind->type == MPI_SHORT_INT ? 2 : kind->size - kind->place - sizeof(int));
    MPI_Win_fence(0, win);
    for (int to = 0; to < ranks; to++)
        MPI_Put(mine, 1, kind->type, to, rank * kind->size, 1, kind->type, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int at = 0; at < ranks; at++)
        wrong += !is_pair(kind, window + at * kind->size, at, at + 100) || !has_gaps(kind, window + at * kind->size);
    MPI_Barrier(MPI_COMM_WORLD);
    return wrong;
}

static int pairs(void)
{
    struct kind all[PAIRS];
    char *window;
    MPI_Win win;
    int wrong = 0;
    kinds(all);
    MPI_Win_allocate(1024, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    for (int at = 0; at < PAIRS; at++) {
        write_pair(&all[at], window, 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        wrong += whole_pairs(&all[at], win) + located_pairs(&all[at], window, win);
    }
    MPI_Win_free(&win);
    return wrong;
}

/* MPI_2INT, whose name begins with no letter, and `long double` with all bits that it has. */
static int wide(void)
{
    long double *cells, one = 1, tiny = 0x1p-60L, scale = 2;
    MPI_Win win;
    int wrong = 0;
    MPI_Win_allocate(4 * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    cells[0] = 0, cells[1] = 1, cells[2] = 5;
    ((int *)&cells[3])[0] = ((int *)&cells[3])[1] = -1;
    MPI_Win_fence(0, win);
    for (int round = 0; round < 100; round++)
        MPI_Accumulate(&tiny, 1, MPI_LONG_DOUBLE, 0, 0, 1, MPI_LONG_DOUBLE, MPI_SUM, win);
    if (rank == 0)
        MPI_Accumulate(&one, 1, MPI_LONG_DOUBLE, 0, 0, 1, MPI_LONG_DOUBLE, MPI_SUM, win);
    MPI_Accumulate(&scale, 1, MPI_LONG_DOUBLE, 0, 1, 1, MPI_LONG_DOUBLE, MPI_PROD, win);
    long double low = 4 - rank;
    MPI_Accumulate(&low, 1, MPI_LONG_DOUBLE, 0, 2, 1, MPI_LONG_DOUBLE, MPI_MIN, win);
    int pair[2] = {rank / 2, ranks - rank};
    MPI_Accumulate(pair, 1, MPI_2INT, 0, 3, 1, MPI_2INT, MPI_MAXLOC, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (rank == 0) {
        int least = (ranks - 1) / 2 * 2 + 1 < ranks ? 1 : ranks - (ranks - 1) / 2 * 2;
        int *found = (int *)&cells[3];
        wrong += cells[0] != 1 + 100 * ranks * tiny || cells[1] != 1 << ranks || cells[2] != 5 - ranks;
        wrong += found[0] != (ranks - 1) / 2 || found[1] != least;
    }
    MPI_Win_free(&win);
    return wrong;
}

/* What the second thread of rank 0 does while its first one goes on. */
static MPI_Win shared;
static MPI_Group other;

static void *lock_other(void *nothing)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, shared);
    MPI_Win_unlock(1, shared);
    return nothing;
}

static void *expose(void *nothing)
{
    MPI_Win_post(other, 0, shared);
    MPI_Win_wait(shared);
    return nothing;
}

/* A thread of rank 0 waits for what rank 1 does only when another thread of rank 0 has used the window. */
static int threads(void)
{
    int *cell, one = 1, first = 0, peer = 1 - rank;
    pthread_t thread;
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &peer, &other);
    MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &shared);
    *cell = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, shared);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        pthread_create(&thread, NULL, lock_other, NULL);
        pause_ms(100);
        MPI_Win_unlock(0, shared);
        pthread_join(thread, NULL);
    } else {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, shared);
        MPI_Fetch_and_op(&one, &first, MPI_INT, 0, 0, MPI_SUM, shared);
        MPI_Win_unlock(0, shared);
        MPI_Win_unlock(1, shared);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        pthread_create(&thread, NULL, expose, NULL);
        pause_ms(100);
    } else {
        expose(NULL);
    }
    MPI_Win_start(other, 0, shared);
    int value = 40 + rank;
    MPI_Put(&value, 1, MPI_INT, peer, 0, 1, MPI_INT, shared);
    MPI_Win_complete(shared);
    if (rank == 0)
        pthread_join(thread, NULL);
    int wrong = *cell != 40 + peer || first != 0;
    MPI_Win_free(&shared);
    MPI_Group_free(&other);
    MPI_Group_free(&world);
    return wrong;
}

/* More elements than an int counts, in a window of the library's own, which may have no function for them: an error. */
__attribute__((weak)) int MPI_Put_c(const void *, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype,
                                    MPI_Win);

static int large(void)
{
    static char cell[16];
    MPI_Info info;
    MPI_Win win;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weft", "off");
    MPI_Win_create(cell, sizeof cell, 1, info, MPI_COMM_WORLD, &win);
    MPI_Info_free(&info);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    MPI_Count few = 1, many = (MPI_Count)1 << 31;
    char value = 'a' + rank;
    int class = MPI_SUCCESS, wrong = MPI_Put_c(&value, few, MPI_CHAR, 0, rank, few, MPI_CHAR, win) != MPI_SUCCESS;
    MPI_Error_class(MPI_Put_c(cell, many, MPI_CHAR, 0, 0, many, MPI_CHAR, win), &class);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int other = 0; rank == 0 && other < ranks; other++)
        wrong += cell[other] != 'a' + other;
    MPI_Win_free(&win);
    return wrong + (class != MPI_ERR_COUNT);
}

/* A rank that makes no call in an epoch of fences is served all the same: what others put is in its memory. There are
 * more puts than a rank has receives for their messages. */
static int silent(void)
{
    enum { CELLS = 300 };
    static long mine[CELLS];
    volatile long *cells;
    MPI_Win win;
    MPI_Win_allocate(CELLS * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    for (int at = 0; at < CELLS; at++)
        mine[at] = at + 1, cells[at] = 0;
    MPI_Win_fence(0, win);
    if (rank == 0) {
        int missing = CELLS;
        while (missing > 0) {
            pause_ms(1);
            missing = 0;
            for (int at = 0; at < CELLS; at++)
                missing += cells[at] != at + 1;
        }
    } else {
        for (int at = rank - 1; at < CELLS; at += ranks - 1)
            MPI_Put(&mine[at], 1, MPI_LONG, 0, at, 1, MPI_LONG, win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
    return 0;
}

/* The NICs of this process, by the files that weft stat reads; -1 where there are none. */
static int nics(void)
{
    const char *name = getenv("WEFT_BOARDS");
    DIR *boards = name ? opendir(name) : NULL;
    if (!boards)
        return -1;
    int count = 0;
    char own[32];
    snprintf(own, sizeof own, "%ld-", (long)getpid());
    for (struct dirent *board; (board = readdir(boards));)
        count += strncmp(board->d_name, own, strlen(own)) == 0;
    closedir(boards);
    return count;
}

/* Windows are served by the NIC that the MPI library has by its provider: there is no other one. And ranks that wait in
 * a fence let the library go on with a long message. */
static int one(void)
{
    enum { LONG = 1 << 22 };
    int before = nics(), *cell, last = ranks - 1;
    char *message = calloc(LONG, 1);
    MPI_Win win;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, win);
    if (rank == 0)
        MPI_Isend(message, LONG, MPI_CHAR, last, 0, MPI_COMM_WORLD, &request);
    if (rank == last)
        MPI_Recv(message, LONG, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int wrong = *cell != (rank + ranks - 1) % ranks || nics() != before || before == 0;
    MPI_Win_free(&win);
    free(message);
    return wrong;
}

struct program {
    const char *name;
    int (*run)(void);
};

static const struct program PROGRAMS[] = {
    {"old", old},
    {"pairs", pairs},
    {"wide", wide},
    {"threads", threads},
    {"large", large},
    {"silent", silent},
    {"one", one},
};

int main(int argc, char **argv)
{
    int wrong = 1, all, level, is_threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    MPI_Init_thread(&argc, &argv, is_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t at = 0; at < sizeof PROGRAMS / sizeof *PROGRAMS; at++)
        if (argc > 1 && strcmp(argv[1], PROGRAMS[at].name) == 0)
            wrong = PROGRAMS[at].run();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", argc > 1 ? argv[1] : "nothing", all ? "wrong" : "well");
    MPI_Finalize();
    return all != 0;
}
