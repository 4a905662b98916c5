/* A program with NVTX in it, as any library of a training job has. Knows nothing of Trimtab. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nvtxEventAttributes_t named(const char* text) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
}

static void core_calls(void) {
  nvtxRangePushA("ascii");
  nvtxRangePushW(L"wide \u00e9");
  nvtxRangePop();
  nvtxRangePop();
  nvtxEventAttributes_t attributes = named("with payload");
  attributes.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  attributes.payload.dValue = 12.5;
  nvtxRangePushEx(&attributes);
  nvtxRangePop();
  nvtxMarkA("mark");
  nvtxMarkW(L"wide mark");
  attributes = named("mark ex");
  nvtxMarkEx(&attributes);
  nvtxNameOsThreadA(4242, "loader");
  nvtxRangeEnd(nvtxRangeStartW(L"wide started"));
  attributes = named("started ex");
  nvtxRangeEnd(nvtxRangeStartEx(&attributes));
  nvtxRangePop(); /* nothing is open: must do nothing */
}

static void* end_range(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  return NULL;
}

static void cross_thread(void) {
  nvtxRangeId_t id = nvtxRangeStartA("across threads");
  pthread_t thread;
  pthread_create(&thread, NULL, end_range, &id);
  pthread_join(thread, NULL);
}

static void domain_calls(void) {
  nvtxDomainHandle_t one = nvtxDomainCreateA("one");
  nvtxDomainHandle_t two = nvtxDomainCreateW(L"two");
  nvtxStringHandle_t text = nvtxDomainRegisterStringA(one, "registered");
  nvtxEventAttributes_t attributes = named("interleaved");
  nvtxDomainRangePushEx(two, &attributes);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = text;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  attributes.payload.iValue = -3;
  nvtxDomainRangePushEx(one, &attributes);
  nvtxDomainRangePop(two); /* not the innermost of the thread, but of its domain */
  nvtxDomainRangePop(one);
  attributes = named("domain mark");
  nvtxDomainMarkEx(one, &attributes);
  attributes = named("domain started");
  nvtxDomainRangeEnd(one, nvtxDomainRangeStartEx(one, &attributes));
  nvtxDomainRangePushEx(one, NULL);
  nvtxDomainRangePop(one);
  nvtxDomainDestroy(one);
}

/* The Python client's way: the shim, whose own copy of NVTX loads the same library. */
static void shim_calls(void) {
  void* shim = dlopen(getenv("NVTX_SHIM"), RTLD_NOW);
  if (shim == NULL) exit(2);
  void (*push)(const char*, int64_t) = (void (*)(const char*, int64_t))dlsym(shim, "trimtab_nvtx_push");
  void (*pop)(void) = (void (*)(void))dlsym(shim, "trimtab_nvtx_pop");
  void* client = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
  if (push == NULL || pop == NULL || client == NULL) exit(2);
  void (*client_push)(const char*, int64_t) = (void (*)(const char*, int64_t))dlsym(client, "trimtab_range_push");
  void (*client_pop)(void) = (void (*)(void))dlsym(client, "trimtab_range_pop");
  push("op/a/forward", 2);
  pop();
  client_push("op/a/forward", 2);
  client_pop();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "core") == 0) core_calls();
  if (strcmp(what, "cross") == 0) cross_thread();
  if (strcmp(what, "domain") == 0) domain_calls();
  if (strcmp(what, "shim") == 0) shim_calls();
  puts("done");
  return 0;
}
