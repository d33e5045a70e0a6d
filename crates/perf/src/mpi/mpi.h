/* What the program needs of MPI, in the two binary interfaces that its implementations have. It is declared here because run-time packages bring
   no header: MPICH's (libmpi.so.12: MPICH since 3.1, Intel MPI), where handles are integers, and Open MPI's (libmpi.so.40), where
   they are pointers. Both are promised to be stable. */

#ifdef WEFT_OPEN_MPI
typedef void *MPI_Comm, *MPI_Datatype, *MPI_Request, *MPI_Win, *MPI_Info, *MPI_Op;
extern char ompi_mpi_comm_world[], ompi_mpi_byte[], ompi_request_null[], ompi_mpi_info_null[], ompi_mpi_op_bor[];
#define MPI_BOR ((MPI_Op)ompi_mpi_op_bor)
#define MPI_INFO_NULL ((MPI_Info)ompi_mpi_info_null)
#define MPI_COMM_WORLD ((MPI_Comm)ompi_mpi_comm_world)
#define MPI_BYTE ((MPI_Datatype)ompi_mpi_byte)
#define MPI_REQUEST_NULL ((MPI_Request)ompi_request_null)
#define MPI_STATUS_IGNORE ((void *)0)
#define MPI_STATUSES_IGNORE ((void *)0)
#else
typedef int MPI_Comm, MPI_Datatype, MPI_Request, MPI_Win, MPI_Info, MPI_Op;
#define MPI_BOR 0x58000008
#define MPI_INFO_NULL 0x1c000000
#define MPI_COMM_WORLD 0x44000000
#define MPI_BYTE 0x4c00010d
#define MPI_REQUEST_NULL 0x2c000000
#define MPI_STATUS_IGNORE ((void *)1)
#define MPI_STATUSES_IGNORE ((void *)1)
#endif

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
