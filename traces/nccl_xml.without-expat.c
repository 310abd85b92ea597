/* The reader of NCCL topology XML in a build without libexpat: says so. */
#include "traces/nccl_xml.h"

#include "runtime/status.h"

bool tutti_nccl_xml_available(void)
{
    return false;
}

int tutti_nccl_xml_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                         struct tutti_err *err)
{
    (void)text;
    (void)bytes;
    (void)ret;
    return tutti_fail(err, TUTTI_ELACK,
                      "%s: this build cannot read XML (build with libexpat: Debian's "
                      "libexpat1-dev)",
                      name);
}
