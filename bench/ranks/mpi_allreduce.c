// A rank that all-reduces with MPI_Allreduce; which algorithm and transport that is, mpirun's MCA parameters say.
#include <mpi.h>

#include "rank.h"

// MPI's errors end the program: MPI_ERRORS_ARE_FATAL is the default.
static void barrier(void *context) {
    (void)context;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_reduce(void *context, float *tensor, size_t elements) {
    (void)context;
    MPI_Allreduce(MPI_IN_PLACE, tensor, (int)elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct rank_options options = rank_parse(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &options.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &options.world);
    const struct rank_calls calls = {NULL, barrier, all_reduce};
    rank_run(&options, &calls);
    MPI_Finalize();
    return 0;
}
