/* Ranges of the Python client through NVTX proper, in the domain "trimtab": what any NVTX tool sees, and with ours
 * injected, the same record as trimtab_range_push writes. Built only where NVTX 3's headers are found. */

#include <nvtx3/nvToolsExt.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void trimtab_nvtx_push(const char* name, int64_t payload);
EXPORTED void trimtab_nvtx_pop(void);

/* Two threads may both create it: NVTX tools give the same domain to the same name. */
static nvtxDomainHandle_t trimtab_domain(void) {
  static _Atomic(nvtxDomainHandle_t) known = NULL;
  nvtxDomainHandle_t domain = atomic_load_explicit(&known, memory_order_acquire);
  if (domain == NULL) {
    domain = nvtxDomainCreateA("trimtab");
    atomic_store_explicit(&known, domain, memory_order_release);
  }
  return domain;
}

void trimtab_nvtx_push(const char* name, int64_t payload) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = payload;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(trimtab_domain(), &attributes);
}

void trimtab_nvtx_pop(void) {
  nvtxDomainRangePop(trimtab_domain());
}
