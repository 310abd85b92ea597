/* The peer of allreduce_bench: MPI_Allreduce of whatever MPI there is, timed in the same way. */
#include <mpi.h>

#include "tests/bench/bench.h"

/* Rank 0 probes while the others sleep, so that the probe has the processors to itself. */
static double probe(int rank)
{
    MPI_Request request;
    double hop_ns = 0;
    int done = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        hop_ns = bench_hop_ns();
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    return hop_ns;
}

/* From the common start to the end of the last rank, per iteration. */
static double time_of(const float *in, float *out, uint64_t bytes)
{
    int count = (int)(bytes / sizeof(float));
    uint32_t iterations = bench_iterations(bytes);
    double took_us;
    double most_us = 0;

    for (uint32_t i = 0; i < bench_warmups(bytes); i++)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    took_us = bench_now_us();
    for (uint32_t i = 0; i < iterations; i++)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    took_us = bench_now_us() - took_us;
    MPI_Allreduce(&took_us, &most_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most_us / iterations;
}

int main(int argc, char **argv)
{
    enum { SIZES_MAX = 64 };
    uint64_t sizes[SIZES_MAX];
    size_t size_count;
    uint64_t largest = 0;
    float *in;
    float *out;
    int rank;
    int rank_count;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    size_count = argc == 3 ? bench_sizes(argv[2], sizes, SIZES_MAX) : 0;
    if (size_count == 0) {
        fprintf(stderr, "usage: allreduce_peer_mpi CONTENDER SIZE,SIZE,...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t i = 0; i < size_count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    in = bench_memory(largest);
    out = bench_memory(largest);
    bench_fill(in, largest, (uint32_t)rank);
    for (size_t i = 0; i < size_count; i++) {
        double before_ns = probe(rank);
        double us = time_of(in, out, sizes[i]);
        double after_ns = probe(rank);

        if (bench_wrong(out, sizes[i], (uint32_t)rank_count) > 0) {
            fprintf(stderr, "rank %d: wrong sums at %llu bytes\n", rank,
                    (unsigned long long)sizes[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0)
            bench_say(argv[1], (uint32_t)rank_count, sizes[i], us, before_ns, after_ns, "mpi");
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
