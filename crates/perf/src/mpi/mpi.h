/* What the program needs of MPI, in the two binary interfaces that its implementations have. It is declared here because run-time packages bring
   no header: MPICH's (libmpi.so.12: MPICH since 3.1, Intel MPI), where handles are integers, and Open MPI's (libmpi.so.40), where
   they are pointers. Both are promised to be stable. */
#pragma once

#include <stdint.h>

#ifdef WEFT_OPEN_MPI
typedef void *MPI_Comm, *MPI_Datatype, *MPI_Request, *MPI_Win, *MPI_Info, *MPI_Op;
extern char ompi_mpi_comm_world[], ompi_mpi_byte[], ompi_request_null[], ompi_mpi_info_null[], ompi_mpi_op_bor[];
extern char ompi_mpi_int[], ompi_mpi_double[], ompi_mpi_int64_t[], ompi_mpi_uint32_t[], ompi_mpi_uint64_t[];
extern char ompi_mpi_op_max[], ompi_mpi_op_min[], ompi_mpi_op_sum[];
#define MPI_BOR ((MPI_Op)ompi_mpi_op_bor)
#define MPI_MAX ((MPI_Op)ompi_mpi_op_max)
#define MPI_MIN ((MPI_Op)ompi_mpi_op_min)
#define MPI_SUM ((MPI_Op)ompi_mpi_op_sum)
#define MPI_INT ((MPI_Datatype)ompi_mpi_int)
#define MPI_DOUBLE ((MPI_Datatype)ompi_mpi_double)
#define MPI_INT64_T ((MPI_Datatype)ompi_mpi_int64_t)
#define MPI_UINT32_T ((MPI_Datatype)ompi_mpi_uint32_t)
#define MPI_UINT64_T ((MPI_Datatype)ompi_mpi_uint64_t)
#define MPI_INFO_NULL ((MPI_Info)ompi_mpi_info_null)
#define MPI_COMM_WORLD ((MPI_Comm)ompi_mpi_comm_world)
#define MPI_BYTE ((MPI_Datatype)ompi_mpi_byte)
#define MPI_MODE_NOSUCCEED 16
#define MPI_REQUEST_NULL ((MPI_Request)ompi_request_null)
#define MPI_STATUS_IGNORE ((void *)0)
#define MPI_STATUSES_IGNORE ((void *)0)
#else
typedef int MPI_Comm, MPI_Datatype, MPI_Request, MPI_Win, MPI_Info, MPI_Op;
#define MPI_BOR 0x58000008
#define MPI_MAX 0x58000001
#define MPI_MIN 0x58000002
#define MPI_SUM 0x58000003
#define MPI_INT 0x4c000405
#define MPI_DOUBLE 0x4c00080b
#define MPI_INT64_T 0x4c00083a
#define MPI_UINT32_T 0x4c00043d
#define MPI_UINT64_T 0x4c00083e
#define MPI_INFO_NULL 0x1c000000
#define MPI_COMM_WORLD 0x44000000
#define MPI_BYTE 0x4c00010d
#define MPI_MODE_NOSUCCEED 16384
#define MPI_REQUEST_NULL 0x2c000000
#define MPI_STATUS_IGNORE ((void *)1)
#define MPI_STATUSES_IGNORE ((void *)1)
#endif

typedef long MPI_Aint;
/* Longer than that of any library: only its address is given away. */
typedef struct { int words[16]; } MPI_Status;

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Abort(MPI_Comm, int code);
int MPI_Comm_rank(MPI_Comm, int *rank);
int MPI_Comm_size(MPI_Comm, int *size);
int MPI_Send(const void *, int count, MPI_Datatype, int to, int tag, MPI_Comm);
int MPI_Recv(void *, int count, MPI_Datatype, int from, int tag, MPI_Comm, void *status);
int MPI_Isend(const void *, int count, MPI_Datatype, int to, int tag, MPI_Comm, MPI_Request *);
int MPI_Irecv(void *, int count, MPI_Datatype, int from, int tag, MPI_Comm, MPI_Request *);
int MPI_Sendrecv(const void *, int count, MPI_Datatype, int to, int tag, void *, int room, MPI_Datatype, int from, int tag_in, MPI_Comm, void *status);
int MPI_Wait(MPI_Request *, void *status);
int MPI_Waitall(int count, MPI_Request *, void *statuses);
double MPI_Wtime(void);
int MPI_Barrier(MPI_Comm);
int MPI_Bcast(void *, int count, MPI_Datatype, int from, MPI_Comm);
int MPI_Reduce(const void *, void *, int count, MPI_Datatype, MPI_Op, int to, MPI_Comm);
int MPI_Exscan(const void *, void *, int count, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Alltoallv(const void *, const int *counts, const int *places, MPI_Datatype, void *, const int *rooms, const int *places_in, MPI_Datatype, MPI_Comm);
int MPI_Allreduce(const void *, void *, int count, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Alltoall(const void *, int count, MPI_Datatype, void *, int room, MPI_Datatype, MPI_Comm);
int MPI_Win_create(void *, long bytes, int unit, MPI_Info, MPI_Comm, MPI_Win *);
int MPI_Win_fence(int asserts, MPI_Win);
int MPI_Win_free(MPI_Win *);
int MPI_Put(const void *, int count, MPI_Datatype, int to, long at, int count_there, MPI_Datatype, MPI_Win);
int MPI_Type_vector(int count, int length, int stride, MPI_Datatype, MPI_Datatype *);
int MPI_Type_create_hvector(int count, int length, long stride, MPI_Datatype, MPI_Datatype *);
int MPI_Type_commit(MPI_Datatype *);
int MPI_Type_free(MPI_Datatype *);
