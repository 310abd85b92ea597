/* What the tests of NCCL topology XML share: loading a file, and NCCL's path bandwidth. */
#ifndef TUTTI_TESTS_TRACES_NCCL_XML_H
#define TUTTI_TESTS_TRACES_NCCL_XML_H

#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

static inline struct tutti_topo *load(const char *path, const char *name, struct tutti_err *err)
{
    size_t bytes = 0;
    char *text = test_read_file(path, &bytes);
    struct tutti_topo *topo = NULL;

    if (text == NULL)
        (void)tutti_fail(err, TUTTI_EIO, "cannot read '%s'", path);
    else
        (void)tutti_nccl_xml_parse(name, text, bytes, &topo, err);
    free(text);
    return topo;
}

/* One of the machines of NCCL's test vectors. */
static inline struct tutti_topo *fixture(const char *name)
{
    struct tutti_err err = {""};
    char path[1024];

    snprintf(path, sizeof(path), "%s/tests/fixtures/nccl_xml/%s", TUTTI_SOURCE_DIR, name);
    return load(path, name, &err);
}

/* The least rate on the way between two ranks in MB/s: NCCL's path bandwidth. */
static inline int64_t path_rate(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    uint32_t links[32];
    uint32_t count = tutti_topo_route(topo, from, to, links, 32);
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++)
        if (tutti_topo_link(topo, links[i]).bytes_per_s < least)
            least = tutti_topo_link(topo, links[i]).bytes_per_s;
    return count == 0 ? 0 : (int64_t)(least / 1000000);
}

#endif
