/* Every allocation of the library made to fail once: a clean error each time, and nothing left. */
#include "tests/alloc_fail.h"
#include "tests/topo/links.h"

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/threads.h"
#include "sim/fold/fold.h"
#include "sim/fold/memory.h"
#include "sim/predict.h"
#include "sim/sim.h"
#include "topo/topo.h"
#include "traces/chrome.h"
#include "traces/csv.h"
#include "traces/nccl_tests.h"
#include "traces/nccl_xml.h"

/* ---- schedules ---- */

static struct tutti_coll_params params_of(enum tutti_collective collective)
{
    return (struct tutti_coll_params){
        .collective = collective,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_AVG,
        .root = 1,
        .count = collective == TUTTI_BARRIER ? 0 : 1000,
        .channel_count = 2,
        .chunk_bytes = 1024,
    };
}

static int generate(const char *name, enum tutti_collective collective, uint32_t rank_count,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params params = params_of(collective);
    struct tutti_shape shape = tutti_shape_flat(rank_count);

    return tutti_coll_generate(name, &params, &shape, ret, err);
}

static int generate_and_free(const char *name, enum tutti_collective collective,
                             struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    int status = generate(name, collective, 4, &schedule, err);

    tutti_schedule_free(schedule);
    return status;
}

TEST(every_generator_fails_cleanly)
{
    size_t count;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    struct tutti_err err;

    for (size_t a = 0; a < count; a++) {
        for (uint32_t c = 0; c < TUTTI_CUSTOM; c++) {
            struct tutti_schedule *schedule = NULL;

            /* Some fit no flat shape; that they say so is tested with the generators. */
            if ((algorithms[a].collectives >> c & 1) == 0 ||
                generate(algorithms[a].name, (enum tutti_collective)c, 4, &schedule, &err) != 0)
                continue;
            tutti_schedule_free(schedule);
            ALLOC_FAIL_EACH(generate_and_free(algorithms[a].name, (enum tutti_collective)c, &err),
                            err);
        }
    }
}

static int check_and_prove(const char *name, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    int status = generate(name, TUTTI_ALLREDUCE, 4, &schedule, err);

    if (status == 0)
        status = tutti_schedule_check(schedule, err);
    if (status == 0)
        status = tutti_schedule_prove(schedule, err);
    tutti_schedule_free(schedule);
    return status;
}

TEST(checking_and_proving_fail_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(check_and_prove("ring", &err), err);
    ALLOC_FAIL_EACH(check_and_prove("double-binary-tree", &err), err);
}

/* A builder with a callee and a step that calls it. */
static int build_caller(struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_schedule *callee = NULL;
    struct tutti_builder *builder = NULL;
    int status = generate("two-shot", TUTTI_ALLREDUCE, 3, &callee, err);

    if (status < 0)
        return status;
    struct tutti_schedule_desc desc = {
        .name = "caller",
        .contract = callee->contract,
        .rank_count = 3,
        .lane_count = 2,
        .scratch_bytes = callee->scratch_bytes,
    };
    struct tutti_step call = {
        .kind = TUTTI_CALL, .dst_buf = TUTTI_BUF_OUT, .src_buf = TUTTI_BUF_IN};

    status = tutti_builder_new(&desc, &builder, err);
    if (status == 0)
        status = tutti_builder_add_callee(builder, callee, &call.peer, err);
    if (status == 0)
        callee = NULL; /* the builder's now */
    for (uint32_t rank = 0; rank < 3 && status == 0; rank++)
        status = tutti_builder_add(builder, rank, 1, &call, err);
    tutti_schedule_free(callee);
    if (status < 0) {
        tutti_builder_free(builder);
        return status;
    }
    return tutti_builder_finish(builder, ret, err);
}

static int build_and_store(struct tutti_err *err)
{
    struct tutti_schedule *caller = NULL;
    struct tutti_schedule *stored = NULL;
    struct tutti_builder *builder = NULL;
    int status = build_caller(&caller, err);

    if (status == 0)
        status = tutti_schedule_store(caller->callees[0], &builder, err);
    if (status == 0)
        status = tutti_builder_finish(builder, &stored, err);
    tutti_schedule_free(stored);
    tutti_schedule_free(caller);
    return status;
}

TEST(building_and_storing_fail_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(build_and_store(&err), err);
}

static int call_and_flatten(struct tutti_err *err)
{
    struct tutti_schedule *caller = NULL;
    struct tutti_schedule *flat = NULL;
    int status = build_caller(&caller, err);

    if (status == 0)
        status = tutti_schedule_flatten(caller, &flat, err);
    if (status == 0)
        status = tutti_schedule_check(flat, err);
    tutti_schedule_free(flat);
    tutti_schedule_free(caller);
    return status;
}

static int print_and_parse(struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_schedule *again = NULL;
    char *text = NULL;
    int status = build_caller(&schedule, err);

    if (status == 0)
        status = tutti_schedule_print(schedule, &text, err);
    if (status == 0)
        status = tutti_schedule_parse("text", text, strlen(text), &again, err);
    free(text);
    tutti_schedule_free(again);
    tutti_schedule_free(schedule);
    return status;
}

TEST(flattening_printing_and_parsing_fail_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(call_and_flatten(&err), err);
    ALLOC_FAIL_EACH(print_and_parse(&err), err);
}

/* ---- playing ---- */

static int play_on(struct tutti_backend *backend, const struct tutti_schedule *schedule,
                   struct tutti_err *err)
{
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 2,
                              .barrier = true,
                              .deadline_ps = 10 * TUTTI_PS_PER_S,
                              .record = &record};
    int status;

    tutti_record_init(&record);
    status = tutti_backend_play(backend, &play, &played, err);
    tutti_record_done(&record);
    return status;
}

static int play_threads(struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    int status = build_caller(&schedule, err);

    if (status == 0)
        status = tutti_threads_open(NULL, &backend, err);
    if (status == 0)
        status = play_on(backend, schedule, err);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    return status;
}

TEST(playing_on_threads_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play_threads(&err), err);
}

static int play_sim(enum tutti_model model, bool carry, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .model = model, .carry = carry, .jitter = 0.5};
    int status = build_caller(&schedule, err);

    if (status == 0)
        status = tutti_topo_from_spec("switch:n=3,bw=50GB/s,lat=1us", &topo, err);
    opts.topo = topo;
    if (status == 0)
        status = tutti_sim_open(&opts, &backend, err);
    if (status == 0)
        status = play_on(backend, schedule, err);
    tutti_backend_close(backend);
    tutti_topo_free(topo);
    tutti_schedule_free(schedule);
    return status;
}

TEST(simulating_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play_sim(TUTTI_MODEL_ALPHABETA, false, &err), err);
    ALLOC_FAIL_EACH(play_sim(TUTTI_MODEL_FAIR, false, &err), err);
    ALLOC_FAIL_EACH(play_sim(TUTTI_MODEL_FAIR, true, &err), err);
}

/* Trees do not suit data flow: they are played by the clock. */
static int play_tree(enum tutti_model model, struct tutti_err *err)
{
    struct tutti_coll_params params = {
        .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = 600, .chunk_bytes = 80};
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = model};
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_from_spec("switch:n=9", &topo, err);

    opts.topo = topo;
    if (status == 0)
        status = tutti_coll_generate("double-binary-tree", &params, &topo->shape, &schedule, err);
    if (status == 0)
        status = tutti_sim_open(&opts, &backend, err);
    if (status == 0)
        status = play_on(backend, schedule, err);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return status;
}

TEST(simulating_by_the_clock_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play_tree(TUTTI_MODEL_ALPHABETA, &err), err);
    ALLOC_FAIL_EACH(play_tree(TUTTI_MODEL_FAIR, &err), err);
}

/* ---- machines ---- */

static int read_spec(const char *spec, struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    struct tutti_topo *again = NULL;
    char *text = NULL;
    int status = tutti_topo_from_spec(spec, &topo, err);

    if (status == 0)
        status = tutti_topo_print(topo, &text, err);
    if (status == 0)
        status = tutti_topo_parse("again", text, strlen(text), &again, err);
    free(text);
    tutti_topo_free(again);
    tutti_topo_free(topo);
    return status;
}

TEST(making_printing_and_parsing_machines_fail_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(read_spec("ring:n=5,bw=50GB/s,lat=1us", &err), err);
    ALLOC_FAIL_EACH(read_spec("dgx-h100:nodes=2", &err), err);
    ALLOC_FAIL_EACH(read_spec("tpu-v4:4x4x4", &err), err);
    ALLOC_FAIL_EACH(read_spec("dgx-1v", &err), err);
}

static int replicate(struct tutti_err *err)
{
    struct tutti_topo *host = NULL;
    struct tutti_topo *cluster = NULL;
    int status = tutti_topo_from_spec("dgx-a100", &host, err);

    if (status == 0)
        status = tutti_topo_replicate(host, 2, TUTTI_PS_PER_US, &cluster, err);
    tutti_topo_free(cluster);
    tutti_topo_free(host);
    return status;
}

TEST(replicating_a_host_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(replicate(&err), err);
}

static int read_xml(struct tutti_err *err)
{
    static const char text[] =
        "<system version='1'><cpu numaid='0' arch='x86_64' vendor='GenuineIntel' familyid='6'"
        " modelid='143'><pci busid='0000:1d:00.0' link_speed='16 GT/s' link_width='16'>"
        "<gpu dev='0' sm='90' rank='0'><nvlink target='0000:1e:00.0' count='4'/></gpu></pci>"
        "<pci busid='0000:1e:00.0' link_speed='16 GT/s' link_width='16'>"
        "<gpu dev='1' sm='90' rank='1'><nvlink target='0000:1d:00.0' count='4'/></gpu></pci>"
        "</cpu></system>";
    struct tutti_topo *topo = NULL;
    int status = tutti_nccl_xml_parse("own.xml", text, strlen(text), &topo, err);

    tutti_topo_free(topo);
    return status;
}

/* libexpat's own memory is not ours to take away. */
TEST(reading_xml_fails_cleanly)
{
    struct tutti_err err;

    if (!tutti_nccl_xml_available())
        SKIP("this build cannot read XML");
    ALLOC_FAIL_EACH(read_xml(&err), err);
}

static int predict(const char *spec, const char *algorithm, struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .algorithm = algorithm,
                            .params = params_of(TUTTI_ALLREDUCE),
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR};
    struct tutti_answer answer;
    int status = tutti_topo_from_spec(spec, &topo, err);

    ask.topo = topo;
    if (status == 0)
        status = tutti_predict(&ask, &answer, err);
    tutti_topo_free(topo);
    return status;
}

/* Ring by ring: where one link of a machine is slow and the last rank late. */
static int fold(const char *spec, const char *algorithm, enum tutti_model model,
                struct tutti_err *err)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 16 * 6 * 4};
    tutti_ps starts[16] = {0};
    struct tutti_folded folded;
    struct tutti_schedule *schedule = NULL;
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_from_spec(spec, &topo, err);

    if (status == 0)
        status = tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, err);
    if (status == 0) {
        struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                      .topo = topo,
                                      .model = model,
                                      .start_ps = starts};

        starts[topo->rank_count - 1] = 1000000;
        struct tutti_link link = tutti_topo_link(topo, 0);

        link.bytes_per_s /= 2;
        status = tutti_topo_change_links(topo, 1, link_from_array, &link, err);
        if (status == 0)
            status = tutti_fold_play(&opts, schedule, 0, &folded, err);
    }
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return status;
}

/* Where links are shared, on a machine that is as it should be. */
static int fold_shared(const char *spec, const char *algorithm, uint64_t count,
                       struct tutti_err *err)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = count};
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};
    struct tutti_folded folded;
    struct tutti_schedule *schedule = NULL;
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_from_spec(spec, &topo, err);

    if (status == 0)
        status = tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, err);
    opts.topo = topo;
    if (status == 0)
        status = tutti_fold_play(&opts, schedule, 0, &folded, err);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return status;
}

/* A long tree and one twice as long, of which the second is known from the first. */
static int fold_remembered(struct tutti_err *err)
{
    struct tutti_topo *topo = NULL;
    struct tutti_fold_memory *memory = NULL;
    int status = tutti_topo_from_spec("dgx-h100:nodes=2", &topo, err);

    if (status == 0)
        status = tutti_fold_memory_new(&memory, err);
    for (uint64_t count = 1 << 24; count <= 1 << 25 && status == 0; count *= 2) {
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                           .dtype = TUTTI_FLOAT32,
                                           .op = TUTTI_SUM,
                                           .count = count,
                                           .channel_count = 1};
        struct tutti_sim_opts opts = {
            .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
        struct tutti_fold_known known = {.memory = memory};
        struct tutti_schedule *schedule = NULL;
        struct tutti_folded folded;

        status = tutti_coll_generate("double-binary-tree", &params, &topo->shape, &schedule, err);
        if (status == 0)
            status = tutti_fold_play_known(&opts, schedule, 0, &known, &folded, err);
        tutti_fold_known_done(&known);
        tutti_schedule_free(schedule);
    }
    tutti_fold_memory_free(memory);
    tutti_topo_free(topo);
    return status;
}

TEST(remembering_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(fold_remembered(&err), err);
}

TEST(folding_over_shared_links_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(fold_shared("dgx-h100:nodes=2", "two-shot", 64, &err), err);
    ALLOC_FAIL_EACH(fold_shared("dgx-h100:nodes=2", "ring-bidirectional", 3, &err), err);
    ALLOC_FAIL_EACH(fold_shared("dgx-h100:nodes=2", "ring-bidirectional", 1 << 20, &err), err);
    ALLOC_FAIL_EACH(fold_shared("switch:n=8", "recursive-doubling", 64, &err), err);
    ALLOC_FAIL_EACH(fold_shared("dgx-h100:nodes=2", "double-binary-tree", 1 << 24, &err), err);
}

TEST(folding_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(fold("ring:n=4", "ring", TUTTI_MODEL_ALPHABETA, &err), err);
    ALLOC_FAIL_EACH(fold("torus:4x4", "torus", TUTTI_MODEL_ALPHABETA, &err), err);
    ALLOC_FAIL_EACH(fold("dgx-h100:nodes=2", "hierarchical", TUTTI_MODEL_FAIR, &err), err);
}

TEST(predicting_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(predict("dgx-h100", "ring", &err), err);
    ALLOC_FAIL_EACH(predict("torus:3x2,bw=45GB/s,lat=1us", "torus", &err), err);
}

/* ---- files of measurements, and records ---- */

static int read_log(const char *text, struct tutti_err *err)
{
    struct tutti_nccl_log log = {0};
    int status = tutti_nccl_tests_parse("log", text, strlen(text), &log, err);

    if (status == 0)
        tutti_nccl_log_free(&log);
    return status;
}

static int read_csv(struct tutti_err *err)
{
    static const char text[] = "size_bytes,time_us\n8,1.5\n16,1.6\n32,1.7\n64,2\n128,2\n256,3\n";
    struct tutti_nccl_log log = {0};
    int status = tutti_csv_measurements_parse("table", text, strlen(text), &log, err);

    if (status == 0)
        tutti_nccl_log_free(&log);
    return status;
}

TEST(reading_measurements_fails_cleanly)
{
    char *text = test_read_file(TUTTI_SOURCE_DIR "/tests/fixtures/nccl-tests/v2.19.log", NULL);
    struct tutti_err err;

    REQUIRE(text != NULL);
    ALLOC_FAIL_EACH(read_log(text, &err), err);
    ALLOC_FAIL_EACH(read_csv(&err), err);
    free(text);
}

static int print_record(struct tutti_err *err)
{
    struct tutti_record record;
    char *chrome = NULL;
    char *csv = NULL;
    int status = 0;

    tutti_record_init(&record);
    for (uint32_t i = 0; i < 200 && status == 0; i++) {
        struct tutti_event event = {.start_ps = i,
                                    .end_ps = i + 5,
                                    .rank = i % 2,
                                    .kind = i % 2 == 0 ? TUTTI_SEND : TUTTI_RECV,
                                    .peer = 1 - i % 2,
                                    .step = i / 2,
                                    .bytes = 4};

        if (tutti_record_add(&record, &event) < 0)
            status = tutti_nomem(err);
    }
    if (status == 0)
        status = tutti_chrome_print(&record, "a run", &chrome, err);
    if (status == 0)
        status = tutti_csv_record_print(&record, &csv, err);
    free(chrome);
    free(csv);
    tutti_record_done(&record);
    return status;
}

TEST(printing_records_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(print_record(&err), err);
}
