/* A machine read, printed, parsed and made with every allocation made to fail once: clean errors,
 * no leak. */
#include "tests/alloc_fail.h"

#include "topo/local.h"
#include "topo/topo.h"

static int make(const char *text, uint32_t ranks, struct tutti_err *err)
{
    struct tutti_facts *facts = NULL;
    struct tutti_topo *topo = NULL;
    char *printed = NULL;
    int status = tutti_facts_parse("own.facts", text, strlen(text), &facts, err);

    if (status == 0)
        status = tutti_topo_of_facts(facts, "it", ranks, &topo, err);
    if (status == 0)
        status = tutti_facts_print(facts, &printed, err);
    tutti_facts_free(facts);
    tutti_topo_free(topo);
    free(printed);
    return status;
}

/* Of this machine, whatever it is; without NVML, which takes memory of its own. */
static int read_this(struct tutti_err *err)
{
    const struct tutti_topo_local_opts opts = {.size = sizeof(opts), .root = "/", .nvml = ""};
    struct tutti_facts *facts = NULL;
    struct tutti_topo *topo = NULL;
    int status = tutti_facts_read(&opts, &facts, err);

    if (status == 0)
        status = tutti_topo_of_facts(facts, "it", 0, &topo, err);
    tutti_facts_free(facts);
    tutti_topo_free(topo);
    return status;
}

TEST(facts_become_a_machine_or_not)
{
    static const struct {
        const char *name;
        uint32_t ranks;
    } machines[] = {{"workstation", 0}, {"cloud-h100", 4}, {"cpus", 3}};
    struct tutti_err err = {""};

    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        char path[512];
        char *text;

        (void)snprintf(path, sizeof(path), TUTTI_SOURCE_DIR "/tests/topo/local/%s.facts",
                       machines[m].name);
        text = test_read_file(path, NULL);
        REQUIRE(text != NULL);
        ALLOC_FAIL_EACH(make(text, machines[m].ranks, &err), err);
        free(text);
    }
}

TEST(this_machine_is_read_or_not)
{
    struct tutti_err err = {""};

    if (read_this(&err) < 0)
        SKIP("nothing is known of this machine");
    ALLOC_FAIL_EACH(read_this(&err), err);
}
