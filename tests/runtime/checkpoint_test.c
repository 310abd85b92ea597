/* Checkpoints are restored as they were saved, by any number of ranks; what is too old goes. */
#include "runtime/train/checkpoint_hash.h"
#include "tests/runtime/checkpoint_world.h"

static struct world w;

TEST(what_four_save_any_number_reads)
{
    static const uint32_t counts[] = {4, 2, 1, 3, 8, 4};
    char line[256];

    for (unsigned spread = SPREAD_CHIEF; spread <= SPREAD_RANDOM; spread++) {
        uint64_t step = 0;

        world_init(&w, counts[0]);
        for (size_t i = 0; i + 1 < sizeof(counts) / sizeof(counts[0]); i++) {
            w.rank_count = counts[i];
            w.incarnation = i;
            CHECK_OK(world_open_savers(&w), w.err);
            CHECK_OK(world_save(&w, (enum world_spread)spread, step += 10), w.err);
            CHECK_OK(world_close_savers(&w), w.err);
            CHECK_INT(world_restore(&w, counts[i + 1], NULL), step);
            CHECK_INT(world_restore(&w, counts[i], NULL), step);
        }
        world_done(&w);
    }
    CHECK(tutti_checkpoint_regroups(&world_slots[ERROR], 4, 2, line, sizeof(line)));
    CHECK_TEXT(line, "slot 'error': those of 4 ranks are summed into 2");
    CHECK(tutti_checkpoint_regroups(&world_slots[POSITION], 4, 2, line, sizeof(line)));
    CHECK_TEXT(line, "slot 'position': those of 4 ranks are dropped, 2 begin with 0");
    CHECK(tutti_checkpoint_regroups(&world_slots[LOCAL], 4, 2, line, sizeof(line)));
    CHECK_TEXT(line, "slot 'local': the mean of 4 ranks goes to each of 2");
    CHECK(!tutti_checkpoint_regroups(&world_slots[ERROR], 4, 4, line, sizeof(line)));
    CHECK(!tutti_checkpoint_regroups(&world_slots[WEIGHTS], 4, 2, line, sizeof(line)));
}

TEST(any_range_of_elements_is_read)
{
    struct tutti_checkpoint_source source = {.verify = false};
    struct tutti_checkpoint *c = NULL;

    world_init(&w, 3);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_RANDOM, 7), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    REQUIRE(c != NULL);
    for (uint64_t first = 0; first <= ELEMENTS; first++)
        for (uint64_t count = 0; count <= ELEMENTS - first; count++)
            CHECK_INT(world_wrong(c, MOMENT, first, count, 0, 1, &w.err), 0);
    tutti_checkpoint_close(c);
    world_done(&w);
}

TEST(scalars_and_names_come_back_to_the_bit)
{
    struct tutti_checkpoint_source source = {.verify = true};
    struct tutti_checkpoint *c = NULL;
    const struct tutti_checkpoint_scalar *scalar;
    char names[256];

    world_init(&w, 2);
    w.disk = NULL; /* this once all goes to the medium */
    w.incarnation = 3;
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 120), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_TEXT(world_names(w.dir, names, sizeof(names)), "step-000120.3");
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    REQUIRE(c != NULL);
    CHECK_TEXT(world_names(tutti_checkpoint_folder(c), names, sizeof(names)),
               "manifest shard-000000 shard-000001");
    CHECK_INT(tutti_checkpoint_id(c).incarnation, 3);
    CHECK_TEXT(tutti_checkpoint_strategy(c), "fsdp");
    CHECK_INT(tutti_checkpoint_rank_count(c), 2);
    CHECK_INT(tutti_checkpoint_elements(tutti_checkpoint_model(c)), ELEMENTS);
    scalar = tutti_checkpoint_scalar(c, "epoch");
    CHECK(scalar != NULL && !scalar->is_real && scalar->integer == 1);
    scalar = tutti_checkpoint_scalar(c, "loss_scale");
    CHECK(scalar != NULL && scalar->is_real && !(scalar->real < 32768.0 / 121) &&
          !(scalar->real > 32768.0 / 121));
    scalar = tutti_checkpoint_scalar(c, "seed");
    CHECK(scalar != NULL && scalar->integer == UINT64_MAX);
    CHECK(tutti_checkpoint_scalar(c, "nothing") == NULL);
    CHECK(tutti_checkpoint_slot(c, "nothing") == NULL);
    CHECK_INT(tutti_checkpoint_slot(c, "weights")->elements, ELEMENTS);
    tutti_checkpoint_close(c);
    world_done(&w);
}

TEST(the_newest_few_are_kept)
{
    char names[256];

    world_init(&w, 2);
    w.keep = 2;
    CHECK_OK(world_open_savers(&w), w.err);
    for (uint64_t step = 30; step <= 120; step += 30)
        CHECK_OK(world_save(&w, SPREAD_SHARDS, step), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_TEXT(world_names(w.dir, names, sizeof(names)), "step-000090.0 step-000120.0");
    CHECK_INT(world_restore(&w, 1, NULL), 120);
    world_done(&w);
}

/* After a return to step 60 what is at 90 and 120 is older than what comes next. */
TEST(the_newest_is_of_the_last_incarnation)
{
    uint64_t incarnation = 99;
    char names[256];

    world_init(&w, 2);
    CHECK_OK(tutti_checkpoint_next_incarnation(NULL, w.dir, &incarnation, &w.err), w.err);
    CHECK_INT(incarnation, 0);
    CHECK_OK(world_open_savers(&w), w.err);
    for (uint64_t step = 30; step <= 120; step += 30)
        CHECK_OK(world_save(&w, SPREAD_SHARDS, step), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_OK(tutti_checkpoint_next_incarnation(NULL, w.dir, &w.incarnation, &w.err), w.err);
    CHECK_INT(w.incarnation, 1);
    w.keep = 3;
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 90), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_INT(world_restore(&w, 2, NULL), 90);
    CHECK_TEXT(world_names(w.dir, names, sizeof(names)),
               "step-000090.0 step-000090.1 step-000120.0");
    world_done(&w);
}

/* What has no manifest does not exist; the chief removes it when it starts, and after a commit what
 * is older than that. Files of others stay. */
TEST(unfinished_saves_are_passed_over_and_removed)
{
    struct world_notes notes = {.count = 0};
    char path[1024];
    char names[256];

    world_init(&w, 2);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 30), w.err);
    world_fill(&w, SPREAD_SHARDS, 60);
    for (uint32_t rank = 0; rank < 2; rank++) /* written, and never committed */
        CHECK_OK(tutti_saver_begin(w.ranks[rank].saver, 60, w.ranks[rank].pieces,
                                   w.ranks[rank].piece_count, NULL, 0, &w.err),
                 w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_TEXT(world_names(w.dir, names, sizeof(names)), "step-000030.0 step-000060.0");
    CHECK_INT(world_restore(&w, 2, &notes), 30);
    CHECK_TEXT(notes.text, "");
    CHECK_OK(tutti_checkpoint_next_incarnation(NULL, w.dir, &w.incarnation, &w.err), w.err);
    CHECK_INT(w.incarnation, 1);
    snprintf(path, sizeof(path), "%s/step-1.0", w.dir); /* no name of ours */
    CHECK_INT(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/step-000099.0", w.dir);
    CHECK_INT(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/step-000099.0/notes", w.dir);
    CHECK_INT(mkdir(path, 0777), 0);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_TEXT(world_names(w.dir, names, sizeof(names)), "step-000030.0 step-000099.0 step-1.0");
    CHECK_OK(world_close_savers(&w), w.err);
    world_done(&w);
}

/* ---- hashes -----------------------------------------------------------------------------------*/

/* They stand in files: a later version must compute the same. */
TEST(hashes_stay_as_they_are)
{
    char text[200];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 7);
    CHECK(tutti_hash_of("", 0) == UINT64_C(0x5127bbec050ff83e));
    CHECK(tutti_hash_of("tutti", 5) == UINT64_C(0xf4da776c5879a82d));
    CHECK(tutti_hash_of(text, sizeof(text)) == UINT64_C(0x35b22cfe6f0286bb));
    CHECK(tutti_hash_of(text, 64) != tutti_hash_of(text, 65)); /* and a zero more is another */
}

TEST(a_word_that_changes_changes_the_hash)
{
    struct tutti_random random;
    uint8_t data[100];
    uint64_t hash;

    tutti_random_seed(&random, test_seed);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)tutti_random_next(&random);
    hash = tutti_hash_of(data, sizeof(data));
    for (size_t bit = 0; bit < 8 * sizeof(data); bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(tutti_hash_of(data, sizeof(data)) != hash);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut <= sizeof(data); cut++) { /* in two parts, as a file is read */
        struct tutti_hash parts;

        tutti_hash_begin(&parts);
        tutti_hash_add(&parts, data, cut);
        tutti_hash_add(&parts, data + cut, sizeof(data) - cut);
        CHECK(tutti_hash_end(&parts) == hash);
    }
}

/* ---- written behind ---------------------------------------------------------------------------*/

TEST(a_step_is_saved_once)
{
    enum tutti_saver_state state = TUTTI_SAVER_WRITING;

    world_init(&w, 1);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(tutti_saver_poll(w.ranks[0].saver, &state, &w.err), w.err);
    CHECK_INT(state, TUTTI_SAVER_IDLE);
    CHECK_INT(tutti_saver_commit(w.ranks[0].saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "no shard is written that could be committed");
    CHECK_OK(world_save(&w, SPREAD_CHIEF, 5), w.err);
    CHECK_OK(tutti_saver_poll(w.ranks[0].saver, &state, &w.err), w.err);
    CHECK_INT(state, TUTTI_SAVER_IDLE);
    CHECK_INT(world_save(&w, SPREAD_CHIEF, 5), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "a save of step 5 after one of step 5");
    CHECK_OK(world_close_savers(&w), w.err);
    world_done(&w);
}

/* All ranks at once, many saves in a row, and no wait but what begin itself waits for. */
TEST(saves_follow_each_other)
{
    enum { STEPS = 20 };

    world_init(&w, 4);
    w.keep = 3;
    w.copy_bytes = 100; /* less than it takes */
    CHECK_OK(world_open_savers(&w), w.err);
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint32_t written = 0;

        world_fill(&w, SPREAD_RANDOM, step);
        for (uint32_t rank = 0; rank < 4; rank++)
            CHECK_OK(tutti_saver_begin(w.ranks[rank].saver, step, w.ranks[rank].pieces,
                                       w.ranks[rank].piece_count, NULL, 0, &w.err),
                     w.err);
        memset(w.ranks[0].data, 0xee, sizeof(w.ranks[0].data)); /* training goes on */
        while (written < 4) {
            enum tutti_saver_state state;

            written = 0;
            for (uint32_t rank = 0; rank < 4; rank++) {
                CHECK_OK(tutti_saver_poll(w.ranks[rank].saver, &state, &w.err), w.err);
                written += state == TUTTI_SAVER_WRITTEN;
            }
            REQUIRE(test_failures == 0);
        }
        for (uint32_t rank = 0; rank < 4; rank++)
            CHECK_OK(tutti_saver_commit(w.ranks[rank].saver, &w.err), w.err);
    }
    CHECK(tutti_saver_bytes(w.ranks[1].saver) > 0);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_INT(world_restore(&w, 4, NULL), STEPS);
    world_done(&w);
}

/* A piece longer than a file's pieces may be is cut: 5 Mi doubles are 40 MiB. */
TEST(long_pieces_are_cut)
{
    static const uint64_t elements = 5 << 20;
    struct tutti_checkpoint_slot slot = {"long", TUTTI_FLOAT64, TUTTI_OWNER_SHARED, elements};
    struct tutti_saver_options options = {.rank_count = 1,
                                          .is_chief = true,
                                          .strategy = "-",
                                          .model = &world_model,
                                          .slots = &slot,
                                          .slot_count = 1};
    struct tutti_saver_piece piece = {0, 0, elements, NULL};
    struct tutti_checkpoint_source source = {.verify = true};
    struct tutti_checkpoint_want want = {"long", TUTTI_FLOAT64, 0, elements, 0, 1};
    double *data = malloc(elements * sizeof(*data));
    double *back = malloc(elements * sizeof(*data));
    struct tutti_checkpoint *c = NULL;
    struct tutti_saver *saver = NULL;

    REQUIRE(data != NULL && back != NULL);
    for (uint64_t i = 0; i < elements; i++)
        data[i] = (double)i;
    world_init(&w, 1);
    options.disk = w.disk;
    options.dir = w.dir;
    piece.data = data;
    CHECK_OK(tutti_saver_open(&options, &saver, &w.err), w.err);
    CHECK_OK(tutti_saver_begin(saver, 1, &piece, 1, NULL, 0, &w.err), w.err);
    CHECK_OK(tutti_saver_wait(saver, &w.err), w.err);
    CHECK_OK(tutti_saver_commit(saver, &w.err), w.err);
    CHECK_OK(tutti_saver_close(saver, &w.err), w.err);
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    REQUIRE(c != NULL);
    CHECK_OK(tutti_checkpoint_read(c, &want, back, &w.err), w.err);
    CHECK(memcmp(data, back, elements * sizeof(*data)) == 0);
    want.first = (2 << 20) - 3; /* across a cut */
    want.count = 7;
    CHECK_OK(tutti_checkpoint_read(c, &want, back, &w.err), w.err);
    CHECK(memcmp(data + want.first, back, 7 * sizeof(*data)) == 0);
    tutti_checkpoint_close(c);
    world_done(&w);
    free(data);
    free(back);
}

/* ---- what is refused --------------------------------------------------------------------------*/

static void refuse_model(const struct tutti_checkpoint_variable *variables, uint32_t count,
                         uint64_t hash, const char *expected)
{
    struct tutti_checkpoint_model model = {"mine", hash, variables, count};
    struct tutti_checkpoint_source source = {.model = &model, .verify = true};
    struct tutti_checkpoint *c = NULL;
    char text[1200];

    CHECK_INT(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), -TUTTI_EINVAL);
    CHECK(c == NULL);
    snprintf(text, sizeof(text), "checkpoint '%s/step-000005.0': another model's%s", w.dir,
             expected);
    CHECK_TEXT(w.err.text, text);
}

TEST(another_models_is_refused_with_both_shapes)
{
    struct tutti_checkpoint_variable v[5];

    world_init(&w, 2);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_CHIEF, 5), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    memcpy(v, world_variables, sizeof(world_variables));
    v[0].dims[1] = 6;
    refuse_model(v, 4, 0x1234,
                 " ('toy'; 'mine' here): variable 'dense/kernel' is 7x5 there, 7x6 here");
    memcpy(v, world_variables, sizeof(world_variables));
    v[2] = (struct tutti_checkpoint_variable){"scale", 1, {9}};
    refuse_model(v, 4, 0x1234,
                 " ('toy'; 'mine' here): variable 2 is 'temperature' (scalar) there, 'scale' (9) "
                 "here");
    refuse_model(world_variables, 3, 0x1234,
                 " ('toy'; 'mine' here): variable 'embedding' (3x4x5) is not here");
    memcpy(v, world_variables, sizeof(world_variables));
    v[4] = (struct tutti_checkpoint_variable){"more", 1, {2}};
    refuse_model(v, 5, 0x1234, " ('toy'; 'mine' here): variable 'more' (2) is not there");
    refuse_model(world_variables, 4, 0x1235,
                 ": 'toy' has hash 0000000000001234 there, 'mine' 0000000000001235 here, of the "
                 "same variables");
    world_done(&w);
}

TEST(what_is_not_in_it_is_said)
{
    struct tutti_checkpoint_source source = {.verify = false};
    struct tutti_checkpoint_want want = {"weights", TUTTI_FLOAT64, 0, 1, 0, 1};
    struct tutti_checkpoint *c = NULL;
    double data[4];
    char text[1200];

    world_init(&w, 1);
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    CHECK(c == NULL);
    CHECK_OK(tutti_checkpoint_open_newest(&source, "/tmp/tutti-is-not-there", &c, &w.err), w.err);
    CHECK(c == NULL);
    snprintf(text, sizeof(text), "there is no checkpoint '%s': it has no manifest", w.dir);
    CHECK_INT(tutti_checkpoint_open(&source, w.dir, &c, &w.err), -TUTTI_ECHECK);
    CHECK_TEXT(w.err.text, text);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_CHIEF, 5), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_OK(tutti_checkpoint_open_newest(&source, w.dir, &c, &w.err), w.err);
    REQUIRE(c != NULL);
    CHECK_INT(tutti_checkpoint_read(c, &want, data, &w.err), -TUTTI_EINVAL);
    snprintf(text, sizeof(text),
             "checkpoint '%s/step-000005.0': slot 'weights' is of type float (double here)", w.dir);
    CHECK_TEXT(w.err.text, text);
    want.slot = "velocity";
    CHECK_INT(tutti_checkpoint_read(c, &want, data, &w.err), -TUTTI_EINVAL);
    snprintf(text, sizeof(text), "checkpoint '%s/step-000005.0' has no slot 'velocity'", w.dir);
    CHECK_TEXT(w.err.text, text);
    want = (struct tutti_checkpoint_want){"code", TUTTI_UINT8, 2, 2, 0, 1};
    CHECK_INT(tutti_checkpoint_read(c, &want, data, &w.err), -TUTTI_EINVAL);
    snprintf(
        text, sizeof(text),
        "checkpoint '%s/step-000005.0': slot 'code' has 3 elements (2 from 2 on are asked for)",
        w.dir);
    CHECK_TEXT(w.err.text, text);
    tutti_checkpoint_close(c);
    world_done(&w);
}

/* A rank that leaves out a piece, saves one twice or has other scalars: nothing is committed, and
 * the message says what is wrong. */
static void refuse_commit(uint64_t step, const char *expected)
{
    char text[1200];

    for (uint32_t rank = 0; rank < 2; rank++) {
        struct world_rank *r = &w.ranks[rank];
        struct tutti_checkpoint_scalar scalar = {.name = "epoch", .integer = step == 50 ? rank : 0};

        CHECK_OK(tutti_saver_begin(r->saver, step, r->pieces, r->piece_count, &scalar, 1, &w.err),
                 w.err);
        CHECK_OK(tutti_saver_wait(r->saver, &w.err), w.err);
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        CHECK_OK(tutti_saver_commit(w.ranks[rank].saver, &w.err), w.err);
    CHECK_INT(tutti_saver_wait(w.ranks[0].saver, &w.err), -TUTTI_ECHECK);
    CHECK_OK(tutti_saver_wait(w.ranks[0].saver, &w.err), w.err); /* it is told once */
    snprintf(text, sizeof(text), "checkpoint '%s/step-%06d.0' is not committed: %s", w.dir,
             (int)step, expected);
    CHECK_TEXT(w.err.text, text);
    CHECK_INT(world_restore(&w, 2, NULL), 5);
}

TEST(what_does_not_belong_together_is_not_committed)
{
    char text[600];

    world_init(&w, 2);
    CHECK_OK(world_open_savers(&w), w.err);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 5), w.err);
    world_fill(&w, SPREAD_SHARDS, 20);
    w.ranks[1].pieces[0].first++;
    w.ranks[1].pieces[0].count--;
    refuse_commit(20, "manifest: elements 51 to 51 of slot 'weights' are in no shard");
    world_fill(&w, SPREAD_SHARDS, 30);
    w.ranks[0].pieces[1].count++;
    refuse_commit(30, "manifest: element 51 of slot 'moment' is in two pieces");
    world_fill(&w, SPREAD_SHARDS, 40);
    w.ranks[1].piece_count--;
    refuse_commit(40, "manifest: elements 0 to 0 of slot 'position' of rank 1 are in no shard");
    world_fill(&w, SPREAD_SHARDS, 50);
    snprintf(text, sizeof(text),
             "'%s/step-000050.0/shard-000001': its rank saves another model, other slots or other "
             "scalars than the chief",
             w.dir);
    refuse_commit(50, text);
    CHECK_OK(world_save(&w, SPREAD_SHARDS, 60), w.err);
    CHECK_OK(world_close_savers(&w), w.err);
    CHECK_INT(world_restore(&w, 2, NULL), 60);
    CHECK_TEXT(world_names(w.dir, text, sizeof(text)), "step-000005.0 step-000060.0");
    world_done(&w);
}

TEST(what_cannot_be_saved_is_refused_at_once)
{
    struct tutti_checkpoint_slot slot = {"weights", TUTTI_FLOAT32, TUTTI_OWNER_SHARED, 0};
    struct tutti_checkpoint_variable twice[] = {{"a", 1, {2}}, {"b", 1, {2}}, {"a", 1, {3}}};
    struct tutti_checkpoint_variable blank[] = {{"a b", 1, {2}}};
    struct tutti_checkpoint_variable none[] = {{"a", 2, {2, 0}}};
    struct tutti_checkpoint_model model = {"toy", 1, twice, 3};
    struct tutti_saver_piece piece = {0, 3, 3, "12345678901234567890"};
    struct tutti_saver_options o = {.rank_count = 1,
                                    .strategy = "-",
                                    .model = &model,
                                    .slots = &slot,
                                    .slot_count = 1,
                                    .is_chief = true};
    struct tutti_saver *saver = NULL;

    world_init(&w, 1);
    o.dir = w.dir;
    CHECK_INT(tutti_saver_open(&o, &saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "two variables are called 'a'");
    model = (struct tutti_checkpoint_model){"toy", 1, blank, 1};
    CHECK_INT(tutti_saver_open(&o, &saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "variable 'a b' cannot be written (a name without blanks and '#')");
    model.variables = none;
    CHECK_INT(tutti_saver_open(&o, &saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "variable 'a' has no elements, or too many (up to 2^56 in all)");
    model = (struct tutti_checkpoint_model){"toy", 1, twice, 2};
    o.rank = 1;
    CHECK_INT(tutti_saver_open(&o, &saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "rank 1 of 1");
    o.rank = 0;
    o.strategy = NULL;
    CHECK_INT(tutti_saver_open(&o, &saver, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "a name of 0 bytes for a strategy (1 to 200)");
    o.strategy = "-";
    CHECK_OK(tutti_saver_open(&o, &saver, &w.err), w.err);
    CHECK_INT(tutti_saver_begin(saver, 1, &piece, 1, NULL, 0, &w.err), -TUTTI_EINVAL);
    CHECK_TEXT(w.err.text, "slot 'weights' has 4 elements (3 from 3 on are saved)");
    CHECK_OK(tutti_saver_close(saver, &w.err), w.err);
    world_done(&w);
}
