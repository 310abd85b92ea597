/* What a parameter server is made of, while each allocation fails once: a clean error, and nothing
 * stays behind. */
#include "runtime/launch.h"
#include "runtime/model.h"
#include "runtime/servers/lead_inside.h"
#include "runtime/servers/store.h"
#include "tests/alloc_fail.h"

static struct tutti_workload *model;

static const char *const servers[] = {"127.0.0.1:1", "127.0.0.1:2"};

static struct tutti_servers_params params(void)
{
    struct tutti_servers_params p = {.size = sizeof(p),
                                     .role = TUTTI_SERVERS_SERVER,
                                     .server_count = 2,
                                     .worker_count = 2,
                                     .servers = servers,
                                     .model = model,
                                     .steps = 3,
                                     .partition = {.kind = TUTTI_PARTITION_FIXED, .shards = 2},
                                     .synchronous = true,
                                     .deadline_ps = TUTTI_PS_PER_S};

    (void)tutti_update_named("adam", &p.optimizer, NULL);
    return p;
}

/* ---- where variables lie, and what one keeps of them ----------------------------------------- */

static int keep_once(struct tutti_err *err)
{
    const struct tutti_servers_params p = params();
    struct tutti_server_layout *layout = NULL;
    struct tutti_store *store = NULL;
    int status = tutti_server_layout_new(&p, &layout, err);

    if (status == 0)
        status = tutti_store_new(&p, layout, 1, &store, err);
    if (status == 0)
        CHECK(layout->elements > 0 && store->moment_count == 2);
    tutti_store_free(store);
    tutti_server_layout_free(layout);
    return status;
}

TEST(a_layout_and_a_store)
{
    struct tutti_err err;

    REQUIRE(tutti_model_new("mlp", NULL, &model, &err) == 0);
    ALLOC_FAIL_EACH(keep_once(&err), err);
    tutti_model_free(model);
}

/* ---- who decides ----------------------------------------------------------------------------- */

static void on_send(void *context, uint32_t trainer, enum tutti_server_message message,
                    const struct tutti_server_head *head)
{
    if (trainer == 0 && message == TUTTI_MESSAGE_SET_UP)
        *(struct tutti_server_head *)context = *head;
}

static void on_verdict(void *context, const struct tutti_server_head *verdict)
{
    (void)context;
    (void)verdict;
}

static void on_told(void *context, const struct tutti_servers_told *told)
{
    (void)context;
    (void)told;
}

/* Up to a model that is set up, when there is memory; what is missing then ends all. */
static int lead_once(struct tutti_err *err)
{
    const struct tutti_servers_params p = params();
    struct tutti_server_head set_up = {.episode = 0};
    const struct tutti_lead_calls calls = {
        .context = &set_up, .send = on_send, .verdict = on_verdict, .told = on_told};
    struct tutti_lead *lead = NULL;
    int status = tutti_lead_new(&p, &calls, 0, &lead, err);

    if (status < 0)
        return status;
    for (uint32_t s = 0; s < p.server_count; s++)
        tutti_lead_server_joined(lead, s, 0);
    for (uint32_t t = 0; t < p.worker_count; t++)
        tutti_lead_trainer_joined(lead, t);
    CHECK(set_up.episode > 0);
    tutti_lead_set_up(lead, 0, &set_up);
    status = tutti_lead_check(lead, 0, err);
    CHECK((status == 0) == (lead->training != NULL));
    tutti_lead_free(lead);
    return status;
}

TEST(a_lead)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(lead_once(&err), err);
}

/* ---- who is there ---------------------------------------------------------------------------- */

static const char *get(const void *context, const char *name)
{
    return strcmp(name, "TF_CONFIG") == 0 ? context : NULL;
}

static int read_once(struct tutti_err *err)
{
    const struct tutti_env env = {
        .get = get,
        .context = "{\"cluster\":{\"ps\":[\"a:1\",\"b:1\"],\"chief\":[\"c:1\"],\"worker\":[\"d:1\","
                   "\"e:1\"]},\"task\":{\"type\":\"worker\",\"index\":1}}"};
    struct tutti_servers_cluster *cluster = NULL;
    int status = tutti_servers_cluster_read(&env, &cluster, err);

    if (status == 0)
        CHECK(cluster != NULL && cluster->server_count == 2 && cluster->index == 1);
    tutti_servers_cluster_free(cluster);
    return status;
}

TEST(a_cluster_of_tensorflow)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(read_once(&err), err);
}
