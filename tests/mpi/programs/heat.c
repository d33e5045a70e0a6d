/* The heat equation on a plate, as crates/weft/examples/halo.rs computes it, with MPI's windows: each rank puts the
 * edges of its part into its neighbours' windows, and a fence ends each step. The same bits come out, whoever carries
 * the puts.
 *
 * heat [CELLS [STEPS]]: a plate of CELLS by CELLS. Rank 0 prints the microseconds of a step, and the checksum of the
 * plate. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum side { UP, DOWN, LEFT, RIGHT, SIDES };

static const enum side OPPOSITE[SIDES] = {DOWN, UP, RIGHT, LEFT};

/* A rank's part of the plate, with a border of one cell. */
struct part {
    int top, left, rows, columns, width;
    double *now, *next;
};

static int is_near(double y, double x, double at_y, double at_x, double radius)
{
    return (y - at_y) * (y - at_y) + (x - at_x) * (x - at_x) < radius * radius;
}

static double heat_at(int row, int column, int cells)
{
    double y = (double)row / cells, x = (double)column / cells;
    if (is_near(y, x, 0.3, 0.35, 0.15))
        return 1.0;
    if (is_near(y, x, 0.7, 0.6, 0.2))
        return 0.7;
    return is_near(y, x, 0.3, 0.75, 0.12) ? -0.6 : 0.0;
}

static struct part make(int rank, int rows, int columns, int cells)
{
    int row = rank / columns, column = rank % columns;
    struct part part = {.top = row * cells / rows, .left = column * cells / columns};
    part.rows = (row + 1) * cells / rows - part.top;
    part.columns = (column + 1) * cells / columns - part.left;
    part.width = part.columns + 2;
    size_t all = (size_t)(part.rows + 2) * part.width;
    part.now = calloc(all, sizeof *part.now);
    part.next = calloc(all, sizeof *part.next);
    if (!part.now || !part.next)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int y = 0; y < part.rows; y++)
        for (int x = 0; x < part.columns; x++)
            part.now[(y + 1) * part.width + x + 1] = heat_at(part.top + y, part.left + x, cells);
    memcpy(part.next, part.now, all * sizeof *part.now);
    return part;
}

/* The first cell along a side, how far apart they are, and how many: those of the part, or the border outside. */
static int along(const struct part *part, enum side side, int outside, int *apart, int *count)
{
    *apart = side == UP || side == DOWN ? 1 : part->width;
    *count = side == UP || side == DOWN ? part->columns : part->rows;
    switch (side) {
    case UP: return (1 - outside) * part->width + 1;
    case DOWN: return (part->rows + outside) * part->width + 1;
    case LEFT: return part->width + 1 - outside;
    default: return part->width + part->columns + outside;
    }
}

static void step_cells(struct part *part, int first_row, int end_row, int first, int end)
{
    int width = part->width;
    for (int row = first_row; row < end_row; row++)
        for (int column = first; column < end; column++) {
            double *now = part->now + row * width + column;
            double around = now[-width] + now[width] + now[-1] + now[1];
            part->next[row * width + column] = *now + 0.2 * (around - 4.0 * *now);
        }
}

static void step_rim(struct part *part)
{
    int rows = part->rows, columns = part->columns;
    step_cells(part, 1, 2, 1, columns + 1);
    if (rows > 1)
        step_cells(part, rows, rows + 1, 1, columns + 1);
    step_cells(part, 2, rows, 1, 2);
    if (columns > 1)
        step_cells(part, 2, rows, columns, columns + 1);
    double *now = part->now;
    part->now = part->next;
    part->next = now;
}

/* FNV-1a, 64 bits. */
static unsigned long long checksum(const void *bytes, size_t length)
{
    unsigned long long sum = 0xcbf29ce484222325;
    for (size_t at = 0; at < length; at++)
        sum = (sum ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3;
    return sum;
}

int main(int count, char **words)
{
    int rank, ranks, rows = 1, cells = count > 1 ? atoi(words[1]) : 256, steps = count > 2 ? atoi(words[2]) : 400;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int some = 1; some * some <= ranks; some++)
        rows = ranks % some ? rows : some;
    int columns = ranks / rows;
    if (steps < 1 || cells < 2 * columns) {
        fprintf(stderr, "heat: %d cells and %d steps are too few for %d by %d ranks\n", cells, steps, rows, columns);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int row = rank / columns, column = rank % columns;
    int beyond[SIDES] = {
        row > 0 ? rank - columns : -1, row + 1 < rows ? rank + columns : -1,
        column > 0 ? rank - 1 : -1, column + 1 < columns ? rank + 1 : -1,
    };
    struct part part = make(rank, rows, columns, cells);
    /* Two borders at each side, for a neighbour may be one step ahead. */
    double *borders = calloc(2 * SIDES * (size_t)cells, sizeof *borders);
    double *edges = calloc(SIDES * (size_t)cells, sizeof *edges);
    if (!borders || !edges)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win window;
    MPI_Win_create(borders, 2 * SIDES * (MPI_Aint)cells * sizeof *borders, sizeof *borders, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    double start = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        int first, apart, length;
        for (int side = 0; side < SIDES; side++) {
            if (beyond[side] < 0)
                continue;
            first = along(&part, side, 0, &apart, &length);
            for (int cell = 0; cell < length; cell++)
                edges[side * cells + cell] = part.now[first + cell * apart];
            MPI_Put(edges + side * cells, length, MPI_DOUBLE, beyond[side],
                    (step % 2 * SIDES + OPPOSITE[side]) * (MPI_Aint)cells, length, MPI_DOUBLE, window);
        }
        step_cells(&part, 2, part.rows, 2, part.columns);
        MPI_Win_fence(0, window);
        for (int side = 0; side < SIDES; side++) {
            first = along(&part, side, 1, &apart, &length);
            for (int cell = 0; beyond[side] >= 0 && cell < length; cell++)
                part.now[first + cell * apart] = borders[(step % 2 * SIDES + side) * cells + cell];
        }
        step_rim(&part);
    }
    double taken = MPI_Wtime() - start;
    MPI_Win_free(&window);

    size_t all = rank == 0 ? (size_t)cells * cells : 0;
    double *plate = calloc(all + 1, sizeof *plate);
    if (!plate)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(plate, all * sizeof *plate, sizeof *plate, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    for (int y = 0; y < part.rows; y++)
        MPI_Put(part.now + (y + 1) * part.width + 1, part.columns, MPI_DOUBLE, 0,
                (part.top + y) * (MPI_Aint)cells + part.left, part.columns, MPI_DOUBLE, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_free(&window);
    if (rank == 0)
        printf("%.1f us a step\nplate %llx\n", taken * 1e6 / steps, checksum(plate, all * sizeof *plate));
    MPI_Finalize();
    return 0;
}
