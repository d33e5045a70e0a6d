/* One-sided communication as programs use it, which prints the same whoever serves its windows: fences with put, get
 * and accumulate; derived types; locks; post, start, complete and wait; a long message whose sender is in a fence.
 *
 * With the argument "outside" the last rank puts behind the end of a window, with "nobody" to a rank that is none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 24, MANY = 20000, LONG = 300000, MESSAGE = 48 << 20 };

static int rank, ranks;

static unsigned long sum(const void *bytes, size_t length)
{
    unsigned long sum = 5381;
    for (size_t at = 0; at < length; at++)
        sum = sum * 33 + ((const unsigned char *)bytes)[at];
    return sum;
}

/* Rank 0 prints what all ranks have found. */
static void tell(const char *what, unsigned long mine)
{
    unsigned long *all = calloc(ranks, sizeof *all);
    MPI_Gather(&mine, 1, MPI_UNSIGNED_LONG, all, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %lx\n", what, sum(all, ranks * sizeof *all));
    free(all);
}

/* Heat in rows: each rank has SIDE of them, and puts its first and last one into its neighbours' halos. */
static void halo(void)
{
    double *now = calloc((SIDE + 2) * SIDE, sizeof *now), *next = calloc((SIDE + 2) * SIDE, sizeof *next);
    for (int at = 0; at < SIDE * SIDE; at++)
        now[SIDE + at] = (at * 7 + rank * 13) % 29;
    MPI_Win wins[2];
    MPI_Win_create(now, (SIDE + 2) * SIDE * sizeof *now, sizeof *now, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[0]);
    MPI_Win_create(next, (SIDE + 2) * SIDE * sizeof *now, sizeof *now, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[1]);
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    for (int step = 0; step < 30; step++) {
        MPI_Win win = wins[step % 2];
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        MPI_Put(now + SIDE, SIDE, MPI_DOUBLE, up, (SIDE + 1) * SIDE, SIDE, MPI_DOUBLE, win);
        MPI_Put(now + SIDE * SIDE, SIDE, MPI_DOUBLE, down, 0, SIDE, MPI_DOUBLE, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        for (int row = 1; row <= SIDE; row++)
            for (int at = 0; at < SIDE; at++) {
                double *here = now + row * SIDE + at;
                double left = at ? here[-1] : 0, right = at + 1 < SIDE ? here[1] : 0;
                next[row * SIDE + at] = (left + right + here[-SIDE] + here[SIDE]) / 4;
            }
        double *other = now;
        now = next;
        next = other;
    }
    tell("halo", sum(now + SIDE, SIDE * SIDE * sizeof *now));
    MPI_Win_free(&wins[0]);
    MPI_Win_free(&wins[1]);
    free(now);
    free(next);
}

static void fences(void)
{
    long *cells;
    MPI_Win win;
    MPI_Win_allocate(MANY * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    memset(cells, 0, MANY * sizeof *cells);
    MPI_Win_fence(0, win);
    /* Each rank has cells of its own at each other one: more puts than may be on their way at once. */
    long *mine = calloc(MANY, sizeof *mine);
    for (int at = rank; at < MANY; at += ranks) {
        mine[at] = at * 1000 + rank;
        MPI_Put(&mine[at], 1, MPI_LONG, (rank + 1) % ranks, at, 1, MPI_LONG, win);
    }
    MPI_Win_fence(0, win);
    tell("puts", sum(cells, MANY * sizeof *cells));
    long *got = calloc(MANY, sizeof *got);
    MPI_Win_fence(0, win);
    MPI_Get(got, MANY, MPI_LONG, (rank + 2) % ranks, 0, MANY, MPI_LONG, win);
    MPI_Win_fence(0, win);
    tell("gets", sum(got, MANY * sizeof *got));
    for (int to = 0; to < ranks; to++)
        MPI_Accumulate(mine, 10, MPI_LONG, to, 7, 10, MPI_LONG, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int to = 0; to < ranks; to++)
        MPI_Accumulate(&mine[rank], 1, MPI_LONG, to, 3, 1, MPI_LONG, MPI_MAX, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    tell("accumulates", sum(cells, 7 * sizeof *cells) + (rank == 0 ? 0 : sum(cells + 3, sizeof *cells)));
    MPI_Win_free(&win);
    free(mine);
    free(got);
}

static void types(void)
{
    enum { ROWS = 16 };
    static int grid[ROWS][ROWS], source[ROWS * ROWS];
    for (int at = 0; at < ROWS * ROWS; at++)
        grid[at / ROWS][at % ROWS] = -1, source[at] = rank * 1000 + at;
    MPI_Win win;
    MPI_Win_create(grid, sizeof grid, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Datatype column, part, pieces, wide, pair;
    MPI_Type_vector(ROWS, 1, ROWS, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &wide);
    int sizes[2] = {ROWS, ROWS}, some[2] = {3, 4}, from[2] = {5, 6};
    MPI_Type_create_subarray(2, sizes, some, from, MPI_ORDER_C, MPI_INT, &part);
    int lengths[3] = {1, 2, 1}, places[3] = {0, 9, 4};
    MPI_Type_indexed(3, lengths, places, MPI_INT, &pieces);
    MPI_Aint offsets[2] = {0, 2 * ROWS * sizeof(int)};
    int ones[2] = {1, 3};
    MPI_Datatype both[2] = {pieces, MPI_INT};
    MPI_Type_create_struct(2, ones, offsets, both, &pair);
    MPI_Datatype all[] = {wide, part, pieces, pair};
    for (int at = 0; at < 4; at++)
        MPI_Type_commit(&all[at]);
    int next = (rank + 1) % ranks;
    MPI_Win_fence(0, win);
    MPI_Put(source, 2 * ROWS, MPI_INT, next, 1, 2, wide, win);
    MPI_Win_fence(0, win);
    tell("columns", sum(grid, sizeof grid));
    MPI_Win_fence(0, win);
    MPI_Put(source, 1, part, next, 0, 1, part, win);
    MPI_Win_fence(0, win);
    MPI_Put(source + 20, 7, MPI_INT, next, 3 * ROWS, 1, pair, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(source + 40, 4, MPI_INT, next, 8 * ROWS, 1, pieces, MPI_SUM, win);
    MPI_Win_fence(0, win);
    tell("pieces", sum(grid, sizeof grid));
    static int back[ROWS][ROWS];
    MPI_Get(back, 1, part, next, 0, 1, part, win);
    MPI_Get(&back[0][0], 3, wide, (rank + 2) % ranks, 0, 3, wide, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    tell("got", sum(back, sizeof back));
    MPI_Win_free(&win);
    for (int at = 0; at < 4; at++)
        MPI_Type_free(&all[at]);
    MPI_Type_free(&column);
}

static void locks(void)
{
    long *cells;
    MPI_Win win;
    MPI_Win_allocate(64 * sizeof *cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    memset(cells, 0, 64 * sizeof *cells);
    /* The epoch of this fence stays open, as far as the fence has said. */
    MPI_Win_fence(0, win);
    for (int round = 0; round < 10; round++) {
        long value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        value += rank + 1;
        MPI_Put(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock_all(0, win);
    long one = 1, before, expected = 0, own = rank + 1, swapped;
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 2, MPI_SUM, win);
    MPI_Win_flush(0, win);
    long ticket = before;
    MPI_Compare_and_swap(&own, &expected, &swapped, MPI_LONG, 0, 3, win);
    MPI_Request request;
    MPI_Rget(&before, 1, MPI_LONG, rank, 9, 1, MPI_LONG, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    long tickets = 0;
    MPI_Allreduce(&ticket, &tickets, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&before, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    MPI_Win_fence(0, win);
    tell("locks", before * 1000 + tickets + (rank == 0 ? cells[2] : 0));
    MPI_Win_free(&win);
}

static void between(void)
{
    static int cell[8], value;
    MPI_Win win;
    MPI_Group world, next, last;
    MPI_Win_create(cell, sizeof cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int after = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Group_incl(world, 1, &after, &next);
    MPI_Group_incl(world, 1, &before, &last);
    for (int round = 0; round < 5; round++) {
        value = rank * 100 + round;
        MPI_Win_post(last, 0, win);
        MPI_Win_start(next, 0, win);
        MPI_Put(&value, 1, MPI_INT, after, round, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    tell("between", sum(cell, sizeof cell));
    MPI_Group_free(&world);
    MPI_Group_free(&next);
    MPI_Group_free(&last);
    MPI_Win_free(&win);
}

/* A message that no buffer on the way holds needs its sender, who is in a fence: the library must go on there. */
static void messages(void)
{
    char *bytes = malloc(MESSAGE), cell = 0;
    memset(bytes, rank + 1, rank == 0 ? MESSAGE : 1);
    MPI_Win win;
    MPI_Win_create(&cell, 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Isend(bytes, MESSAGE, MPI_CHAR, ranks - 1, 4, MPI_COMM_WORLD, &request);
    else if (rank == ranks - 1)
        MPI_Recv(bytes, MESSAGE, MPI_CHAR, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_fence(0, win);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    tell("messages", rank == ranks - 1 ? sum(bytes, MESSAGE) : 0);
    MPI_Win_free(&win);
    free(bytes);
}

/* What is long is not copied; and only some ranks have a window at all. */
static void some(void)
{
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int own, size;
    MPI_Comm_rank(half, &own);
    MPI_Comm_size(half, &size);
    int *mine = malloc(LONG * sizeof *mine), *cells = calloc(LONG, sizeof *cells);
    for (int at = 0; at < LONG; at++)
        mine[at] = own * LONG + at;
    MPI_Win win;
    MPI_Win_create(cells, own == 1 ? 0 : LONG * sizeof *cells, 4, MPI_INFO_NULL, half, &win);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    if ((own + 1) % size != 1)
        MPI_Put(mine, LONG, MPI_INT, (own + 1) % size, 0, LONG, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    tell("some", sum(cells, LONG * sizeof *cells));
    MPI_Win_free(&win);
    MPI_Comm_free(&half);
    free(mine);
    free(cells);
}

static void wrong(const char *how)
{
    static int cells[4], value = 7;
    MPI_Win win;
    MPI_Win_create(cells, sizeof cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    int is_far = strcmp(how, "outside") == 0, code = MPI_SUCCESS, class = -1;
    if (rank == ranks - 1) {
        code = MPI_Put(&value, 1, MPI_INT, is_far ? 0 : ranks, 4, 1, MPI_INT, win);
        MPI_Error_class(code, &class);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (rank == ranks - 1)
        printf("%s: %s\n", how, class == (is_far ? MPI_ERR_RMA_RANGE : MPI_ERR_RANK) ? "the right error" : "wrong");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1) {
        wrong(argv[1]);
    } else {
        halo();
        fences();
        types();
        locks();
        between();
        messages();
        some();
    }
    MPI_Finalize();
    return 0;
}
