/* A run of four processes starts under every launcher there is: our own, mpirun of both kinds, and
 * scripts that set what Slurm, torchrun, TFJob and JAXJob set. */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/runtime/proc.h"
#include "tests/test.h"
#include "tests/tools/commands.h"

#define TUTTI    TUTTI_BINARY_DIR "/tutti "
#define RUN      "run -B tcp -a ring -b 4K -e 64K -f 16 -n 3 -w 1 --format csv "
#define FIXTURES TUTTI_SOURCE_DIR "/tests/fixtures/launch/"
#define SAFELY   "env ASAN_OPTIONS=detect_leaks=0 timeout -k 5 100 "

/* Without the columns of times: "65536,16384,float,sum,-1,ring,none,0". */
static void steady(const char *csv, struct text *ret)
{
    text_add(ret, "", 0);
    while (*csv != '\0') {
        int column = 0;

        for (; *csv != '\0' && *csv != '\n'; csv++) {
            column += *csv == ',';
            if (column < 6 || column == 11)
                text_add(ret, csv, 1);
        }
        text_add(ret, "\n", 1);
        csv += *csv == '\n';
    }
}

/* One table, of process 0, right in all elements; nobody says anything on stderr but what the
 * launcher itself says. */
static void check_plays(const char *command)
{
    struct seen seen = run(command);
    struct text rows = {.at = NULL};

    steady(text_of(&seen.out), &rows);
    if (seen.exit != 0 || strcmp(text_of(&rows), "bytes,count,type,redop,root,algorithm,wrong\n"
                                                 "4096,1024,float,sum,-1,ring,0\n"
                                                 "65536,16384,float,sum,-1,ring,0\n") != 0)
        TEST_FAIL("%s: exit %d, printed\n%sand said\n%s", command, seen.exit, text_of(&seen.out),
                  text_of(&seen.err));
    text_done(&rows);
    seen_done(&seen);
}

/* Exit code, no result, and one line of ours with `expected` in it. */
static void check_refused(const char *command, int exit, const char *expected)
{
    struct seen seen = run(command);

    if (seen.exit != exit || seen.out.bytes != 0 || strstr(text_of(&seen.err), expected) == NULL)
        TEST_FAIL("%s: exit %d, printed\n%sand said\n%s, expected exit %d and ...%s...", command,
                  seen.exit, text_of(&seen.out), text_of(&seen.err), exit, expected);
    seen_done(&seen);
}

TEST(our_own_launcher)
{
    check_plays(SAFELY TUTTI RUN "--launch 4");
    check_plays(SAFELY TUTTI RUN "--launch 1");
    /* What is closed is not taken by a socket. */
    check_plays(SAFELY TUTTI RUN "--launch 2 <&-");
    check_plays(SAFELY TUTTI RUN "--launch 2 <&- 2>&-");
    check_refused(SAFELY TUTTI RUN "--launch 2 >&-", 1, "cannot write the output");
    check_plays("TUTTI_SECRET=squirrel-on-the-walnut " SAFELY TUTTI RUN "--launch 2 -g 4");
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What is said of one that is lost names no other one. */
static void check_blames(const char *said, int victim)
{
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof(name), "process %d", i);
        if ((strstr(said, name) != NULL) != (i == victim))
            TEST_FAIL("%d is lost, and it said\n%s", victim, said);
    }
}

/* A long run of three; `harm` is done to one of its processes, or to the command (-1), once all
 * are there. Returns its status as wait has it; what it said in `said`, how long it took. */
static int harm_one(int number, int victim, char *said, size_t said_bytes, int64_t *ret_ms)
{
    int64_t harmed_ms;
    pid_t children[3];
    int err = memfd_create("err", MFD_CLOEXEC);
    int status = 0;
    int count = 0;
    ssize_t bytes;
    pid_t id = fork();

    if (id == 0) {
        dup2(err, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        (void)execl(TUTTI_BINARY_DIR "/tutti", "tutti", "run", "-B", "tcp", "--launch", "3", "-a",
                    "ring", "-b", "64K", "-e", "64K", "-n", "1000000", "--deadline", "3s",
                    (char *)NULL);
        _exit(99);
    }
    for (int turn = 0; turn < 500 && count < 3; turn++) {
        count = children_of(id, children, 3);
        (void)poll(NULL, 0, 10);
    }
    (void)poll(NULL, 0, 500); /* to meet, and to play */
    CHECK_INT(count, 3);
    harmed_ms = now_ms();
    (void)kill(victim < 0 ? id : children[victim], number);
    (void)waitpid(id, &status, 0);
    *ret_ms = now_ms() - harmed_ms;
    bytes = pread(err, said, said_bytes - 1, 0);
    said[bytes > 0 ? bytes : 0] = '\0';
    close(err);
    for (int i = 0; i < count; i++) {
        for (int turn = 0; turn < 200 && is_alive(children[i]); turn++)
            (void)poll(NULL, 0, 10);
        if (is_alive(children[i]))
            TEST_FAIL("process %d of the run is still there", i);
    }
    return status;
}

TEST(our_own_launcher_leaves_nothing_behind)
{
    char said[4096];
    int64_t ms;
    int status = harm_one(SIGKILL, 2, said, sizeof(said), &ms);

    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK_TEXT(said, "tutti run: process 2 of 3 was ended by signal 9 (Killed)\n");
    check_blames(said, 2);
    if (test_failures > 0)
        fprintf(stderr, "%s", said);
    status = harm_one(SIGINT, -1, said, sizeof(said), &ms);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    status = harm_one(SIGKILL, -1, said, sizeof(said), &ms);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Ring: of three, one that is stopped holds up one neighbour, and that one the other. A deadline of
 * 3 s is kept, and what a stopped process would need to end is not waited for. */
TEST(one_that_is_stopped_ends_the_run_at_its_deadline)
{
    for (int victim = 0; victim < 2; victim++) {
        char said[4096];
        int64_t ms;
        int status = harm_one(SIGSTOP, victim, said, sizeof(said), &ms);

        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        CHECK(strstr(said, "tutti run: ") != NULL);
        CHECK(strchr(said, '\n') == said + strlen(said) - 1); /* one line for all */
        check_blames(said, victim);
        if (ms > 5500) /* on a machine at work */
            TEST_FAIL("process %d of 3 stopped, deadline 3 s, and it took %lld ms", victim,
                      (long long)ms);
    }
}

TEST(lines_of_ssh)
{
    check_plays("TUTTI_SSH=" FIXTURES "fake-ssh.sh " SAFELY TUTTI RUN "--hosts 127.0.0.1:2,b,c");
}

TEST(variables_of_our_own)
{
    check_plays("port=$((20000 + $$ % 12000)); for i in 1 2 3 0; do TUTTI_RANK=$i TUTTI_SIZE=4 "
                "TUTTI_ROOT=127.0.0.1:$port " SAFELY TUTTI RUN "& done; wait");
}

/* On an address that others can reach: with the same secret, or open to anybody. */
TEST(beyond_this_host)
{
#define BEYOND                                                                                \
    "address=$(hostname -I | cut -d' ' -f1); port=$((20000 + $$ % 12000)); for i in 1 0; do " \
    "TUTTI_RANK=$i TUTTI_SIZE=2 TUTTI_ROOT=$address:$port "
    if (system("hostname -I | grep -q '^[0-9.]* '") != 0)
        SKIP("no address here but the loopback's");
    check_plays(BEYOND "TUTTI_SECRET=walnut-of-the-squirrel " SAFELY TUTTI RUN "& done; wait");
    check_plays(BEYOND SAFELY TUTTI RUN "--open & done; wait");
    check_refused("TUTTI_SECRET=walnut " SAFELY TUTTI RUN "--launch 2", 2,
                  "tutti run: variable 'TUTTI_SECRET': 6 characters can be guessed (16 or more, "
                  "drawn at random: openssl rand -hex 16)\n");
    check_refused(BEYOND SAFELY TUTTI RUN "--deadline 1s & done; wait", 0,
                  "(TUTTI_SECRET, the same for all, or '--open')");
}

TEST(slurm)
{
    check_plays(FIXTURES "slurm.sh 4 " SAFELY TUTTI RUN);
}

TEST(torchrun)
{
    check_plays(FIXTURES "torchrun.sh 4 " SAFELY TUTTI RUN);
}

/* The parameter servers and the evaluator of the same job end well, and say why. */
TEST(tfjob)
{
    check_plays(FIXTURES "tfjob.sh 4 " SAFELY TUTTI RUN);
    check_plays(FIXTURES "tfjob.sh 1 " SAFELY TUTTI RUN);
}

TEST(jaxjob)
{
    check_plays(FIXTURES "jaxjob.sh 4 " SAFELY TUTTI RUN);
}

static bool lacks(const char *program)
{
    char command[256];

    snprintf(command, sizeof(command), "command -v %s >/dev/null", program);
    return system(command) != 0;
}

#define OPENMPI                                                         \
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " SAFELY \
    "mpirun.openmpi --oversubscribe -np 4 "

TEST(mpirun_of_open_mpi)
{
    if (lacks("mpirun.openmpi"))
        SKIP("no mpirun.openmpi here (Debian's openmpi-bin)");
    check_plays(OPENMPI TUTTI RUN);
    check_plays(OPENMPI "sh -c '" TUTTI RUN " >/dev/null; " TUTTI RUN "'"); /* twice in one job */
    check_refused(OPENMPI TUTTI RUN "--launch 2", 2, "has started this process already");
}

/* As if its processes were on several hosts: what it says of hosts is taken away. */
TEST(pmix_of_open_mpi)
{
    static const char far[] =
        OPENMPI "env -u OMPI_COMM_WORLD_LOCAL_SIZE -u OMPI_COMM_WORLD_LOCAL_RANK ";
    char command[2048];

    if (lacks("mpirun.openmpi"))
        SKIP("no mpirun.openmpi here (Debian's openmpi-bin)");
    snprintf(command, sizeof(command), "%s", TUTTI "doctor --format csv | grep -q '^libpmix,no'");
    if (system(command) == 0) {
        snprintf(command, sizeof(command), "%s%s", far, TUTTI RUN);
        check_refused(command, 2, "'--rendezvous HOST:PORT' or TUTTI_ROOT");
        SKIP("this build has no PMIx (Debian's libpmix-dev)");
    }
    snprintf(command, sizeof(command), "%s%s", far, TUTTI RUN);
    check_plays(command);
    /* One that does not come: the others say so, and the job ends. */
    snprintf(command, sizeof(command),
             "%ssh -c 'test $OMPI_COMM_WORLD_RANK = 3 && exec sleep 60; exec %s'", far,
             TUTTI RUN "--deadline 2s");
    check_refused(command, 1, "not all processes of the job have come");
}

TEST(mpirun_of_mpich)
{
    if (lacks("mpirun.mpich"))
        SKIP("no mpirun.mpich here (Debian's mpich)");
    check_plays(SAFELY "mpirun.mpich -np 4 " TUTTI RUN);
    check_plays(SAFELY "mpirun.mpich -np 4 sh -c '" TUTTI RUN "'");
}

/* Where a Slurm is at work (a slurmctld and a slurmd of one's own will do), by what it gives its
 * processes to find each other: nothing, PMI-2, PMIx. */
TEST(srun_of_a_slurm_that_runs)
{
    static const char *const kinds[] = {"none", "pmi2", "pmix"};
    char command[1024];

    if (lacks("srun") || system("timeout 10 srun -O -n 4 true >/dev/null 2>&1") != 0)
        SKIP("no Slurm at work here that would start 4 processes (srun -O -n 4 true)");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(command, sizeof(command), "srun --mpi=list 2>&1 | grep -qw %s", kinds[i]);
        if (system(command) != 0)
            continue;
        snprintf(command, sizeof(command), SAFELY "srun -O -n 4 --mpi=%s %s", kinds[i], TUTTI RUN);
        check_plays(command);
    }
}

TEST(what_does_not_fit_together_is_refused)
{
    check_refused("TUTTI_RANK=0 TUTTI_SIZE=2 " SAFELY TUTTI RUN, 2,
                  "TUTTI_RANK says that this is process 0 of 2, and not where process 0 is");
    check_refused("JOB_COMPLETION_INDEX=1 " SAFELY TUTTI RUN, 2, "and not of how many: TUTTI_SIZE");
    check_refused("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                  "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=1 " SAFELY TUTTI RUN,
                  2, "'--rendezvous HOST:PORT' or TUTTI_ROOT");
    check_refused(SAFELY TUTTI RUN "--launch 4 -g 3", 2, "'3' ranks in 4 processes");
    /* other options, a missing process, a wrong secret: the first says so */
    check_refused("export TUTTI_SIZE=2 TUTTI_ROOT=127.0.0.1:$((20000 + $$ % 12000)); "
                  "TUTTI_RANK=1 " SAFELY TUTTI RUN "--seed 7 & TUTTI_RANK=0 " SAFELY TUTTI RUN,
                  2, "process 1 of 2 has option '--seed' '7', process 0 'not given'");
    check_refused(
        "TUTTI_RANK=0 TUTTI_SIZE=3 TUTTI_ROOT=127.0.0.1:$((20000 + $$ % 12000)) " SAFELY TUTTI RUN
        "--deadline 1s",
        1, "1 and 2");
}

/* The first speaks for all, of what only another host lacks as well. */
TEST(a_file_that_only_one_process_has_is_missed_by_all)
{
    check_refused("d=$(mktemp -d) && mkdir $d/0 $d/1 && " SAFELY TUTTI
                  "topo convert switch:n=2,bw=10GB/s,lat=5us >$d/0/m.topo && "
                  "export TUTTI_SIZE=2 TUTTI_ROOT=127.0.0.1:$((20000 + $$ % 12000)); "
                  "(cd $d/1 && TUTTI_RANK=1 " SAFELY TUTTI RUN "--emulate m.topo) & "
                  "cd $d/0 && TUTTI_RANK=0 " SAFELY TUTTI RUN "--emulate m.topo; "
                  "end=$?; wait; rm -r $d; exit $end",
                  2, "process 1 of 2: option '--emulate': there is no preset and no file 'm.topo'");
}
