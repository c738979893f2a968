! What differs between mpi_f08 and the older interfaces. In mpi_f08 the error is optional: the programs
! leave it away.
#if defined(WITH_F08)
#define USE_MPI use mpi_f08
#define IERR
#define HANDLE(kind) type(kind)
#define STATUS(name) type(MPI_Status) :: name
#define STATUSES(name, count) type(MPI_Status) :: name(count)
#define NTH(statuses, n) statuses(n)
#define SOURCE_OF(status) status%MPI_SOURCE
#define TAG_OF(status) status%MPI_TAG
#define NTH_SOURCE(statuses, n) statuses(n)%MPI_SOURCE
#define NTH_TAG(statuses, n) statuses(n)%MPI_TAG
#else
#if defined(WITH_MPIF)
#define USE_MPI use mpif
#else
#define USE_MPI use mpi
#endif
#define IERR , ierr
#define HANDLE(kind) integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES(name, count) integer :: name(MPI_STATUS_SIZE, count)
#define NTH(statuses, n) statuses(:, n)
#define SOURCE_OF(status) status(MPI_SOURCE)
#define TAG_OF(status) status(MPI_TAG)
#define NTH_SOURCE(statuses, n) statuses(MPI_SOURCE, n)
#define NTH_TAG(statuses, n) statuses(MPI_TAG, n)
#endif
