/* TF_CONFIG: {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...]}, "task": {"type":
 * "worker", "index": 0}}. The chief and the workers play together, the chief first; parameter
 * servers and evaluators do not. TFJob's enableDynamicWorker shows each worker its own entry alone,
 * as {"worker": {"1": "host:port"}}, so nobody knows how many there are. */
#include <stdio.h>
#include <string.h>

#include "runtime/launch/json.h"
#include "runtime/launch/source.h"

struct config {
    tutti_tf_config_entry *entry; /* NULL, or told of each entry, and nothing else is noted */
    void *context;
    bool clustered;
    uint32_t chief_count; /* of TF 1 also called master */
    uint32_t worker_count;
    uint32_t other_count; /* ps, evaluator */
    bool dynamic;         /* the workers are an object */
    char chief[TUTTI_JSON_TEXT_BYTES];
    char worker[TUTTI_JSON_TEXT_BYTES]; /* number 0 */
    bool tasked;
    char type[TUTTI_LAUNCH_ROLE_BYTES];
    uint32_t index;
    uint32_t type_count; /* of the cluster's entries of the task's type; the second pass */
    char own[TUTTI_JSON_TEXT_BYTES]; /* the second pass: this task's address */
    uint32_t same_count;             /* the third: members on its host, */
    uint32_t same_before;            /* and those before it */
};

static int refuse(const char *what, const char *found, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL, "%s: '%.100s'", what, found);
}

static bool is_chief(const char *type)
{
    return strcmp(type, "chief") == 0 || strcmp(type, "master") == 0;
}

static bool is_member(const char *type)
{
    return is_chief(type) || strcmp(type, "worker") == 0;
}

/* Digits alone, few enough. */
static bool read_index(const char *text, uint32_t *ret)
{
    uint32_t value = 0;
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 7 || text[digits] != '\0')
        return false;
    for (; *text != '\0'; text++)
        value = 10 * value + (uint32_t)(*text - '0');
    *ret = value;
    return true;
}

/* Up to the colon before the port. */
static bool same_host(const char *a, const char *b)
{
    const char *end_a = strrchr(a, ':');
    const char *end_b = strrchr(b, ':');
    size_t bytes_a = end_a == NULL ? strlen(a) : (size_t)(end_a - a);
    size_t bytes_b = end_b == NULL ? strlen(b) : (size_t)(end_b - b);

    return bytes_a == bytes_b && memcmp(a, b, bytes_a) == 0;
}

/* One entry of the cluster. */
static int note_entry(struct config *c, const char *type, uint32_t index, const char *address,
                      struct tutti_err *err)
{
    bool earlier = is_chief(type) ? !is_chief(c->type) : !is_chief(c->type) && index < c->index;

    if (c->entry != NULL)
        return c->entry(c->context, type, index, address, err);
    if (is_chief(type) && c->chief_count++ == 0)
        (void)snprintf(c->chief, sizeof(c->chief), "%s", address);
    if (strcmp(type, "worker") == 0) {
        c->worker_count++;
        if (index == 0)
            (void)snprintf(c->worker, sizeof(c->worker), "%s", address);
    }
    if (!c->tasked) /* the first pass: the task may stand behind the cluster */
        return 0;
    if (strcmp(type, c->type) == 0) {
        c->type_count++;
        if (index == c->index)
            (void)snprintf(c->own, sizeof(c->own), "%s", address);
    }
    if (is_member(type) && c->own[0] != '\0' && same_host(address, c->own)) {
        c->same_count++;
        c->same_before += earlier;
    }
    return 0;
}

/* The addresses of one type: a list, or an object that numbers them. */
static int read_type(struct tutti_json_reader *r, const char *type, struct config *c,
                     struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    uint32_t depth = r->depth;
    uint32_t index = 0;
    bool listed;
    int status = tutti_json_next(r, &event, err);

    if (status < 0)
        return status;
    listed = event == TUTTI_JSON_ARRAY;
    if (!listed && event != TUTTI_JSON_OBJECT)
        return refuse("its cluster has neither a list nor an object of addresses for", type, err);
    c->dynamic = c->dynamic || (!listed && strcmp(type, "worker") == 0);
    while ((status = tutti_json_next(r, &event, err)) == 0 && r->depth > depth) {
        if (event == TUTTI_JSON_KEY && !read_index(r->text, &index))
            return refuse("its cluster numbers a task by no number", r->text, err);
        if (event == TUTTI_JSON_KEY)
            continue;
        if (event != TUTTI_JSON_STRING || r->cut)
            return refuse("its cluster has something that is no address (\"host:port\") for", type,
                          err);
        status = note_entry(c, type, index, r->text, err);
        if (status < 0)
            return status;
        index += listed;
    }
    return status;
}

static int read_cluster(struct tutti_json_reader *r, struct config *c, struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    int status = tutti_json_next(r, &event, err);

    if (status < 0)
        return status;
    if (event != TUTTI_JSON_OBJECT)
        return refuse("its cluster is no object", "cluster", err);
    while (status == 0 && (status = tutti_json_next(r, &event, err)) == 0 &&
           event == TUTTI_JSON_KEY) {
        char type[TUTTI_LAUNCH_ROLE_BYTES];

        if (r->cut || strlen(r->text) >= sizeof(type))
            return refuse("its cluster has a type of task with too long a name", r->text, err);
        (void)snprintf(type, sizeof(type), "%.*s", (int)sizeof(type) - 1, r->text);
        status = read_type(r, type, c, err);
    }
    return status;
}

static int read_task(struct tutti_json_reader *r, struct config *c, struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    int status = tutti_json_next(r, &event, err);

    if (status < 0)
        return status;
    if (event != TUTTI_JSON_OBJECT)
        return refuse("its task is no object", "task", err);
    while (status == 0 && (status = tutti_json_next(r, &event, err)) == 0 &&
           event == TUTTI_JSON_KEY) {
        bool type = strcmp(r->text, "type") == 0;

        if (!type && strcmp(r->text, "index") != 0) {
            status = tutti_json_skip(r, err);
            continue;
        }
        status = tutti_json_next(r, &event, err);
        if (status < 0)
            return status;
        if (type && (event != TUTTI_JSON_STRING || strlen(r->text) >= sizeof(c->type) || r->cut))
            return refuse("its task has a type that is no name", r->text, err);
        if (type)
            (void)snprintf(c->type, sizeof(c->type), "%.*s", (int)sizeof(c->type) - 1, r->text);
        else if ((event != TUTTI_JSON_NUMBER && event != TUTTI_JSON_STRING) ||
                 !read_index(r->text, &c->index))
            return refuse("its task has an index that is no number", r->text, err);
    }
    return status;
}

/* Reads everything that is wanted of it: the task if not known yet, and the entries anew. */
static int walk(const char *text, struct config *c, struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    struct tutti_json_reader r;
    struct config ignored = {.index = 0};
    bool first = !c->tasked;
    int status;

    tutti_json_read(&r, text);
    c->chief_count = 0;
    c->worker_count = 0;
    c->type_count = 0;
    c->same_count = 0;
    c->same_before = 0;
    status = tutti_json_next(&r, &event, err);
    if (status == 0 && event != TUTTI_JSON_OBJECT)
        return refuse("it is no object", r.text, err);
    while (status == 0 && (status = tutti_json_next(&r, &event, err)) == 0 &&
           event == TUTTI_JSON_KEY) {
        bool cluster = strcmp(r.text, "cluster") == 0;

        if (!cluster && strcmp(r.text, "task") != 0)
            status = tutti_json_skip(&r, err);
        else if (cluster)
            status = read_cluster(&r, c, err);
        else
            status = read_task(&r, first ? c : &ignored, err);
    }
    if (status == 0) /* nothing may stand behind it */
        status = tutti_json_next(&r, &event, err);
    return status;
}

int tutti_tf_config_entries(const char *text, tutti_tf_config_entry *entry, void *context,
                            struct tutti_err *err)
{
    struct config config = {.entry = entry, .context = context};

    return walk(text, &config, err);
}

int tutti_tf_cluster_entries(const char *text, tutti_tf_config_entry *entry, void *context,
                             struct tutti_err *err)
{
    enum tutti_json_event event = TUTTI_JSON_DONE;
    struct config config = {.entry = entry, .context = context};
    struct tutti_json_reader r;
    int status;

    tutti_json_read(&r, text);
    status = read_cluster(&r, &config, err);
    return status == 0 ? tutti_json_next(&r, &event, err) : status;
}

static int check(const struct config *c, struct tutti_err *err)
{
    if (c->type[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL,
                          "it has a cluster, and no task that says which of it this is");
    if (c->chief_count > 1)
        return tutti_fail(err, TUTTI_EINVAL, "its cluster has '%u' chiefs (at most 1)",
                          c->chief_count);
    if (c->own[0] == '\0' && strcmp(c->type, "evaluator") != 0) /* which may be left out */
        return tutti_fail(err, TUTTI_EINVAL, "its task is '%s' %u, and its cluster has %u of these",
                          c->type, c->index, c->type_count);
    return 0;
}

/* Who is it among the chief and the workers, and where is the first of them? */
static int fill(const struct config *c, struct tutti_launch *launch, struct tutti_err *err)
{
    const char *root = c->chief_count > 0 ? c->chief : c->worker;

    (void)snprintf(launch->role, sizeof(launch->role), "%s", c->type);
    launch->member = is_member(c->type);
    launch->count = c->dynamic ? 0 : c->chief_count + c->worker_count;
    launch->index = is_chief(c->type) ? 0 : c->chief_count + c->index;
    if (launch->member && !c->dynamic) {
        launch->local_index = c->same_before;
        launch->local_count = c->same_count;
    }
    if (!launch->member)
        launch->index = 0;
    if (root[0] == '\0')
        return 0;
    return tutti_launch_address("the first address of its cluster", root, launch->root_host,
                                &launch->root_port, err);
}

int tutti_launch_finish_tf_config(const struct tutti_env *env, struct tutti_launch *launch,
                                  struct tutti_err *err)
{
    const char *text = tutti_env_get(env, "TF_CONFIG");
    struct config config = {.index = 0};
    int status = walk(text, &config, err);

    config.clustered = config.chief_count + config.worker_count > 0;
    if (status == 0 && !config.clustered) { /* as TensorFlow takes it: one process */
        launch->count = 1;
        return 0;
    }
    config.tasked = true;
    if (status == 0)
        status = walk(text, &config, err); /* its own address */
    if (status == 0)
        status = walk(text, &config, err); /* who shares its host */
    if (status == 0)
        status = check(&config, err);
    if (status == 0)
        status = fill(&config, launch, err);
    return status < 0 ? tutti_wrap(err, status, "variable 'TF_CONFIG'") : 0;
}

/* ---- other tasks ----------------------------------------------------------------------------- */

struct wanted {
    uint32_t index;       /* of the process */
    uint32_t chief_count; /* those before the workers */
    char *buf;            /* NULL: chiefs are counted */
    size_t buf_bytes;
    bool found;
};

static int look_for(void *context, const char *type, uint32_t index, const char *address,
                    struct tutti_err *err)
{
    struct wanted *w = context;
    const bool chief = is_chief(type);

    (void)err;
    if (w->buf == NULL)
        w->chief_count += chief;
    else if (is_member(type) && w->index == (chief ? 0 : w->chief_count) + index) {
        (void)snprintf(w->buf, w->buf_bytes, "%s %u at '%.200s'", type, index, address);
        w->found = true;
    }
    return 0;
}

bool tutti_launch_task(const struct tutti_env *env, const struct tutti_launch *launch,
                       uint32_t index, char *buf, size_t buf_bytes)
{
    struct wanted wanted = {.index = index};
    const char *text = tutti_env_get(env, "TF_CONFIG");

    if (launch->name == NULL || strcmp(launch->name, "tf_config") != 0 || text == NULL ||
        tutti_tf_config_entries(text, look_for, &wanted, NULL) < 0)
        return false;
    wanted.buf = buf;
    wanted.buf_bytes = buf_bytes;
    return tutti_tf_config_entries(text, look_for, &wanted, NULL) == 0 && wanted.found;
}
