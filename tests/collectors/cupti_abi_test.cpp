// Our declarations beside the real ones. Compiled only where CUPTI's headers are found.

#include "cupti/cupti_abi.hpp"

#include <cupti.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <iterator>
#include <set>
#include <type_traits>

namespace abi = trimtab::inject::cupti;

#define SAME(ours, field, theirs, their_field)                                \
  static_assert(offsetof(abi::ours, field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(std::declval<abi::ours>().field) == sizeof(std::declval<theirs>().their_field))

SAME(KernelActivity, kind, CUpti_ActivityKernel9, kind);
SAME(KernelActivity, registers, CUpti_ActivityKernel9, registersPerThread);
SAME(KernelActivity, start, CUpti_ActivityKernel9, start);
SAME(KernelActivity, end, CUpti_ActivityKernel9, end);
SAME(KernelActivity, device, CUpti_ActivityKernel9, deviceId);
SAME(KernelActivity, context, CUpti_ActivityKernel9, contextId);
SAME(KernelActivity, stream, CUpti_ActivityKernel9, streamId);
SAME(KernelActivity, grid[0], CUpti_ActivityKernel9, gridX);
SAME(KernelActivity, grid[2], CUpti_ActivityKernel9, gridZ);
SAME(KernelActivity, block[0], CUpti_ActivityKernel9, blockX);
SAME(KernelActivity, block[2], CUpti_ActivityKernel9, blockZ);
SAME(KernelActivity, static_shared_memory, CUpti_ActivityKernel9, staticSharedMemory);
SAME(KernelActivity, dynamic_shared_memory, CUpti_ActivityKernel9, dynamicSharedMemory);
SAME(KernelActivity, correlation, CUpti_ActivityKernel9, correlationId);
SAME(KernelActivity, name, CUpti_ActivityKernel9, name);

SAME(MemcpyActivity, copy_kind, CUpti_ActivityMemcpy5, copyKind);
SAME(MemcpyActivity, source_kind, CUpti_ActivityMemcpy5, srcKind);
SAME(MemcpyActivity, destination_kind, CUpti_ActivityMemcpy5, dstKind);
SAME(MemcpyActivity, bytes, CUpti_ActivityMemcpy5, bytes);
SAME(MemcpyActivity, start, CUpti_ActivityMemcpy5, start);
SAME(MemcpyActivity, end, CUpti_ActivityMemcpy5, end);
SAME(MemcpyActivity, device, CUpti_ActivityMemcpy5, deviceId);
SAME(MemcpyActivity, stream, CUpti_ActivityMemcpy5, streamId);
SAME(MemcpyActivity, correlation, CUpti_ActivityMemcpy5, correlationId);

SAME(Memcpy2Activity, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME(Memcpy2Activity, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(Memcpy2Activity, start, CUpti_ActivityMemcpyPtoP4, start);
SAME(Memcpy2Activity, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(Memcpy2Activity, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(Memcpy2Activity, destination_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(Memcpy2Activity, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);

SAME(MemsetActivity, bytes, CUpti_ActivityMemset4, bytes);
SAME(MemsetActivity, start, CUpti_ActivityMemset4, start);
SAME(MemsetActivity, end, CUpti_ActivityMemset4, end);
SAME(MemsetActivity, device, CUpti_ActivityMemset4, deviceId);
SAME(MemsetActivity, stream, CUpti_ActivityMemset4, streamId);
SAME(MemsetActivity, correlation, CUpti_ActivityMemset4, correlationId);

SAME(GraphActivity, correlation, CUpti_ActivityGraphTrace2, correlationId);
SAME(GraphActivity, start, CUpti_ActivityGraphTrace2, start);
SAME(GraphActivity, end, CUpti_ActivityGraphTrace2, end);
SAME(GraphActivity, device, CUpti_ActivityGraphTrace2, deviceId);
SAME(GraphActivity, graph, CUpti_ActivityGraphTrace2, graphId);
SAME(GraphActivity, context, CUpti_ActivityGraphTrace2, contextId);
SAME(GraphActivity, stream, CUpti_ActivityGraphTrace2, streamId);

SAME(OverheadActivity, overhead, CUpti_ActivityOverhead3, overheadKind);
SAME(OverheadActivity, start, CUpti_ActivityOverhead3, start);
SAME(OverheadActivity, end, CUpti_ActivityOverhead3, end);
SAME(OverheadActivity, data, CUpti_ActivityOverhead3, overheadData);
static_assert(offsetof(CUpti_ActivityOverhead, start) == offsetof(abi::OverheadActivity, start));

SAME(ExternalCorrelationActivity, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
SAME(ExternalCorrelationActivity, external_id, CUpti_ActivityExternalCorrelation, externalId);
SAME(ExternalCorrelationActivity, correlation, CUpti_ActivityExternalCorrelation, correlationId);
SAME(ApiActivity, callback, CUpti_ActivityAPI, cbid);
SAME(ApiActivity, start, CUpti_ActivityAPI, start);
SAME(ApiActivity, end, CUpti_ActivityAPI, end);
SAME(ApiActivity, correlation, CUpti_ActivityAPI, correlationId);

static_assert(int{abi::kKindMemcpy} == int{CUPTI_ACTIVITY_KIND_MEMCPY});
static_assert(int{abi::kKindMemset} == int{CUPTI_ACTIVITY_KIND_MEMSET});
static_assert(int{abi::kKindKernel} == int{CUPTI_ACTIVITY_KIND_KERNEL});
static_assert(int{abi::kKindDriver} == int{CUPTI_ACTIVITY_KIND_DRIVER});
static_assert(int{abi::kKindRuntime} == int{CUPTI_ACTIVITY_KIND_RUNTIME});
static_assert(int{abi::kKindConcurrentKernel} == int{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
static_assert(int{abi::kKindMarker} == int{CUPTI_ACTIVITY_KIND_MARKER});
static_assert(int{abi::kKindCudaEvent} == int{CUPTI_ACTIVITY_KIND_CUDA_EVENT});
static_assert(int{abi::kKindSynchronization} == int{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
static_assert(int{abi::kKindOverhead} == int{CUPTI_ACTIVITY_KIND_OVERHEAD});
static_assert(int{abi::kKindMemcpy2} == int{CUPTI_ACTIVITY_KIND_MEMCPY2});
static_assert(int{abi::kKindExternalCorrelation} == int{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
static_assert(int{abi::kKindGraphTrace} == int{CUPTI_ACTIVITY_KIND_GRAPH_TRACE});
static_assert(int{abi::kOverheadBufferFlush} == int{CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH});
static_assert(int{abi::kOverheadInstrumentation} == int{CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION});
static_assert(int{abi::kOverheadResource} == int{CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE});
static_assert(int{abi::kExternalCustom2} == int{CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2});
static_assert(int{abi::kFlushForced} == int{CUPTI_ACTIVITY_FLAG_FLUSH_FORCED});
static_assert(std::is_same_v<abi::Timestamp, CUpti_TimestampCallbackFunc>);
static_assert(abi::kMaxLimitReached == int{CUPTI_ERROR_MAX_LIMIT_REACHED});
static_assert(abi::kMultipleSubscribers == int{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED});
#if CUPTI_API_VERSION >= 27
static_assert(int{abi::kOverheadCommandBufferFull} == int{CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL});
static_assert(int{abi::kOverheadBufferRequest} == int{CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST});
static_assert(int{abi::kOverheadUvmInit} == int{CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT});
#endif

static_assert(std::is_same_v<abi::BufferRequested, CUpti_BuffersCallbackRequestFunc>);

TEST_CASE("the waiting calls are those that return when the device is done") {
  const std::set<std::uint32_t> runtime(std::begin(abi::kRuntimeWaits), std::end(abi::kRuntimeWaits));
  for (const int call :
       {CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
        CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000,
        CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020}) {
    CHECK(runtime.contains(static_cast<std::uint32_t>(call)));
  }
  const std::set<std::uint32_t> driver(std::begin(abi::kDriverWaits), std::end(abi::kDriverWaits));
  for (const int call :
       {CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
        CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz, CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize}) {
    CHECK(driver.contains(static_cast<std::uint32_t>(call)));
  }
}

TEST_CASE("the launching calls are those that put work on a device") {
  const std::set<std::uint32_t> runtime(std::begin(abi::kRuntimeLaunches), std::end(abi::kRuntimeLaunches));
  for (const int call :
       {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
        CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
        CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000}) {
    CHECK(runtime.contains(static_cast<std::uint32_t>(call)));
  }
  const std::set<std::uint32_t> driver(std::begin(abi::kDriverLaunches), std::end(abi::kDriverLaunches));
  for (const int call : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async}) {
    CHECK(driver.contains(static_cast<std::uint32_t>(call)));
  }
}
