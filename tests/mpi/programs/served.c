/* Programs whose windows Weft serves, or leaves to the MPI library with a word. The argument says which; rank 0 prints
 * "WHICH: well" if all ranks have found what they should. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* More elements than an int counts, in a window of the library's own, which may have no function for them: an error. */
__attribute__((weak)) int MPI_Put_c(const void *, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Win);

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

struct program {
    const char *name;
    int (*run)(void);
};

static const struct program PROGRAMS[] = {
    {"old", old},
    {"large", large},
};

int main(int argc, char **argv)
{
    int wrong = 1, all;
    MPI_Init(&argc, &argv);
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
