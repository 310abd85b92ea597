/* A sweep prints the same bytes by any number of threads and by any number of processes of an MPI
 * job, and fails in one line with one exit code wherever in the job it fails. */
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "tests/test.h"
#include "tests/tools/commands.h"

#define TUTTI TUTTI_BINARY_DIR "/tutti "

/* Open MPI starts no more processes than processors, and none for root, unless told to. It keeps
 * memory of its own to the end, which is no leak of ours, and its threads are not instrumented. */
#define LAUNCH                                                         \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "       \
    "OMPI_MCA_rmaps_base_oversubscribe=1 ASAN_OPTIONS=detect_leaks=0 " \
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1 timeout -k 5 100 " TUTTI_MPIEXEC " -n "

/* Tables, JSON and CSV; more points than processes and fewer; algorithms that are left out. */
static const char *const sweeps[] = {
    "predict ring:n=4 -a ring -b 1K -e 1K",
    "predict dgx-h100 -a all -b 1K -e 4M -f 16",
    "predict dgx-h100 -b 1K -e 1M -f 8 --protocol auto --format json",
    "compare dgx-h100:nodes=2 -b 8 -e 1M -f 8",
    "compare torus:3x4 -c allgather -b 8 -e 64K -f 16 --format json",
    "compare dgx-h100 -b 8 -e 64K -f 16 --jitter 0.1 --format csv",
    "predict torus:3x4 -a ring,torus -b 1K -e 64K -f 8 --perturb slow-link=2:2,start=5us",
};

enum { SWEEP_COUNT = sizeof(sweeps) / sizeof(sweeps[0]) };

/* Runs the sweep plainly, and with words before and after: the same is printed. */
static void check_same(const char *before, const char *sweep, const char *after)
{
    char command[2048];
    struct seen plain;
    struct seen other;

    snprintf(command, sizeof(command), TUTTI "%s", sweep);
    plain = run(command);
    snprintf(command, sizeof(command), "%s " TUTTI "%s %s", before, sweep, after);
    other = run(command);
    CHECK_INT(plain.exit, 0);
    CHECK_INT(other.exit, 0);
    CHECK(plain.out.bytes > 100);
    if (other.exit != 0 || strcmp(text_of(&other.out), text_of(&plain.out)) != 0)
        TEST_FAIL("%s: printed\n%s%s, and without\n%s", command, text_of(&other.out),
                  text_of(&other.err), text_of(&plain.out));
    seen_done(&plain);
    seen_done(&other);
}

/* One line of ours, whatever the launcher adds; nothing is printed. */
static void check_failure(const char *command, int exit, const char *expected)
{
    struct seen seen = run(command);
    const char *line = NULL;
    int lines = 0;

    for (const char *p = text_of(&seen.err); *p != '\0';) {
        size_t bytes = strcspn(p, "\n");

        if (strncmp(p, "tutti ", 6) == 0) {
            lines++;
            line = p;
        }
        p += bytes + (p[bytes] == '\n');
    }
    CHECK_INT(seen.exit, exit);
    CHECK_INT(lines, expected != NULL);
    CHECK_INT(seen.out.bytes, 0);
    if (expected != NULL && (line == NULL || strstr(line, expected) == NULL))
        TEST_FAIL("%s: said\n%s, expected ...%s...", command, text_of(&seen.err), expected);
    seen_done(&seen);
}

static bool lacks_launcher(void)
{
    return TUTTI_MPIEXEC[0] == '\0' || access(TUTTI_MPIEXEC, X_OK) != 0;
}

TEST(any_number_of_threads_prints_the_same)
{
    for (int i = 0; i < SWEEP_COUNT; i++) {
        if (!test_takes())
            continue;
        check_same("", sweeps[i], "-j 1");
        check_same("", sweeps[i], "-j 2");
        check_same("", sweeps[i], "-j 4");
    }
}

TEST(a_job_prints_the_same_as_one_process)
{
    if (lacks_launcher())
        SKIP("no MPI in this build, or no mpirun beside it");
    for (int i = 0; i < SWEEP_COUNT; i++)
        if (test_takes())
            check_same(LAUNCH "2", sweeps[i], "");
    check_same(LAUNCH "2", sweeps[3], "-j 2");
    check_same(LAUNCH "5", sweeps[0], ""); /* more processes than points */
}

TEST(a_job_fails_in_one_line)
{
    if (lacks_launcher())
        SKIP("no MPI in this build, or no mpirun beside it");
    check_failure(LAUNCH "2 " TUTTI "compare ring:n=4 --nosuch", 2, "unknown option");
    check_failure(LAUNCH "2 " TUTTI "compare ring:n=4 -a auto", 2, "option '-a'");
    check_failure(LAUNCH "2 " TUTTI "predict ring:n=4 -b 4K -a pat", 2, "predict: ");
}

TEST(a_job_fails_whole_where_one_process_does)
{
    if (lacks_launcher())
        SKIP("no MPI in this build, or no mpirun beside it");
    check_failure(LAUNCH "1 " TUTTI "predict ring:n=4 : -n 1 " TUTTI "predict nosuch", 2,
                  "process 1 of 2: there is no preset");
    check_failure(LAUNCH "1 " TUTTI "predict ring:n=4 : -n 1 " TUTTI "compare --nosuch", 2,
                  "process 1 of 2: unknown option");
    check_failure(LAUNCH "1 " TUTTI "predict ring:n=4 : -n 1 " TUTTI "predict ring:n=4,lat=2us", 2,
                  "do not share one sweep");
    check_failure(LAUNCH "1 " TUTTI "predict ring:n=4 : -n 1 " TUTTI "predict ring:n=4 -e 2K", 2,
                  "do not share one sweep");
}

/* Each cost by which a time may differ counts: here one value of NVLSTree's. */
TEST(a_job_of_several_calibrations_is_refused)
{
    static const char *const files[] = {"sweep_40.calib", "sweep_50.calib"};

    if (lacks_launcher())
        SKIP("no MPI in this build, or no mpirun beside it");
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(files[i], "w");

        REQUIRE(file != NULL);
        fprintf(file, "any.nvlstree.simple.link_percent %d\n", 40 + 10 * i);
        CHECK_INT(fclose(file), 0);
    }
    check_failure(LAUNCH "1 " TUTTI "predict dgx-h100:nodes=2 --calib sweep_40.calib : -n 1 " TUTTI
                         "predict dgx-h100:nodes=2 --calib sweep_50.calib",
                  2, "do not share one sweep");
}

/* What a launcher sets, without the launcher: where MPI cannot join them, the first says why and
 * the others are silent. */
TEST(what_cannot_be_joined_is_refused_by_the_first)
{
    const char *why = TUTTI_BUILD_HAVE_MPI ? "the MPI of this build sees one" : "is without MPI";

    check_failure("ASAN_OPTIONS=detect_leaks=0 PMI_RANK=0 PMI_SIZE=2 timeout 100 " TUTTI
                  "predict ring:n=4",
                  77, why);
    check_failure("ASAN_OPTIONS=detect_leaks=0 PMI_RANK=1 PMI_SIZE=2 timeout 100 " TUTTI
                  "predict ring:n=4",
                  0, NULL);
}

/* One process is no job, nor is a batch script of Slurm, whatever it may start later. */
TEST(one_process_is_an_ordinary_run)
{
    check_same("PMI_RANK=0 PMI_SIZE=1", sweeps[0], "");
    check_same("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", sweeps[0], "");
    check_same("SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4", sweeps[0], "");
    check_same("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0", sweeps[0], "");
}
