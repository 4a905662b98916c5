#include "matrix_products.hpp"

#include <string>

namespace trimtab::bench::cuda {

namespace {

Status checked(cublasStatus_t status, const std::string& action) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return unavailable(action + ": cuBLASLt says " + std::to_string(static_cast<int>(status)));
}

cudaDataType_t data_type(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? CUDA_R_32F : dtype == Dtype::kFloat16 ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

// Descriptions live as long as the process: they are few and small.
struct MatrixProducts::Problem {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};
};

Result<std::shared_ptr<MatrixProducts>> MatrixProducts::open() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  TRIMTAB_TRY(const auto library, DynamicLibrary::open({name, std::string(TRIMTAB_CUDA_LIBRARIES) + "/" + name}));
  std::shared_ptr<MatrixProducts> products(new MatrixProducts(library));
  TRIMTAB_TRY_STATUS(products->load());
  TRIMTAB_TRY_STATUS(checked(products->call_.create(&products->handle_), "cannot start cuBLASLt"));
  return products;
}

MatrixProducts::~MatrixProducts() {
  if (handle_ != nullptr) call_.destroy(handle_);
}

Status MatrixProducts::load() {
  const bool all = library_.find(call_.create, "cublasLtCreate") && library_.find(call_.destroy, "cublasLtDestroy") &&
                   library_.find(call_.operation, "cublasLtMatmulDescCreate") &&
                   library_.find(call_.set_operation, "cublasLtMatmulDescSetAttribute") &&
                   library_.find(call_.layout, "cublasLtMatrixLayoutCreate") &&
                   library_.find(call_.set_layout, "cublasLtMatrixLayoutSetAttribute") &&
                   library_.find(call_.preference, "cublasLtMatmulPreferenceCreate") &&
                   library_.find(call_.set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
                   library_.find(call_.destroy_preference, "cublasLtMatmulPreferenceDestroy") &&
                   library_.find(call_.choose, "cublasLtMatmulAlgoGetHeuristic") &&
                   library_.find(call_.multiply, "cublasLtMatmul");
  if (all) return {};
  return unavailable("this libcublasLt lacks functions that version " + std::to_string(CUBLAS_VER_MAJOR) + " has");
}

Status MatrixProducts::add_layout(cublasLtMatrixLayout_t& layout, Dtype dtype, std::int64_t rows, std::int64_t columns,
                                  std::int64_t batch) const {
  const auto height = static_cast<std::uint64_t>(rows);
  const auto width = static_cast<std::uint64_t>(columns);
  TRIMTAB_TRY_STATUS(checked(call_.layout(&layout, data_type(dtype), height, width, rows), "cannot describe a matrix"));
  if (batch == 1) return {};
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = rows * columns;
  TRIMTAB_TRY_STATUS(checked(call_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
                             "cannot describe a batch"));
  return checked(call_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
                 "cannot describe a batch");
}

// The library counts by columns, we by rows: it is given Cᵀ = Bᵀ Aᵀ, so its first operand is our B.
Status MatrixProducts::describe_operands(const Gemm& gemm, Dtype dtype, Problem& problem) const {
  TRIMTAB_TRY_STATUS(
      checked(call_.operation(&problem.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cannot describe a product"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return checked(call_.set_operation(problem.operation, attribute, &operation, sizeof(operation)),
                   "cannot describe a product");
  };
  TRIMTAB_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_TRANSA, gemm.transposed_b));
  TRIMTAB_TRY_STATUS(set(CUBLASLT_MATMUL_DESC_TRANSB, gemm.transposed_a));
  TRIMTAB_TRY_STATUS(add_layout(problem.b, dtype, gemm.transposed_b ? gemm.k : gemm.n,
                                gemm.transposed_b ? gemm.n : gemm.k, gemm.batch));
  TRIMTAB_TRY_STATUS(add_layout(problem.a, dtype, gemm.transposed_a ? gemm.m : gemm.k,
                                gemm.transposed_a ? gemm.k : gemm.m, gemm.batch));
  return add_layout(problem.c, dtype, gemm.n, gemm.m, gemm.batch);
}

Status MatrixProducts::choose_algorithm(const Gemm& gemm, Dtype dtype, Problem& problem) const {
  cublasLtMatmulPreference_t preference = nullptr;
  TRIMTAB_TRY_STATUS(checked(call_.preference(&preference), "cannot state a preference"));
  const std::size_t workspace = kWorkspaceBytes;
  call_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
  int found = 0;
  const auto status = call_.choose(handle_, problem.operation, problem.b, problem.a, problem.c, problem.c, preference,
                                   1, &problem.chosen, &found);
  call_.destroy_preference(preference);
  TRIMTAB_TRY_STATUS(checked(status, "no algorithm for " + describe(Kernel{gemm, dtype})));
  if (found > 0) return {};
  return unavailable("cuBLASLt has no algorithm for " + describe(Kernel{gemm, dtype}));
}

Result<MatrixProducts::Launcher> MatrixProducts::prepare(const Gemm& gemm, Dtype dtype) {
  Problem problem;
  TRIMTAB_TRY_STATUS(describe_operands(gemm, dtype, problem));
  TRIMTAB_TRY_STATUS(choose_algorithm(gemm, dtype, problem));
  return Launcher([this, problem](const void* a, const void* b, void* c, void* workspace, cudaStream_t stream) {
    const float one = 1;
    const float zero = 0;
    return call_.multiply(handle_, problem.operation, &one, b, problem.b, a, problem.a, &zero, c, problem.c, c,
                          problem.c, &problem.chosen.algo, workspace, kWorkspaceBytes, stream);
  });
}

}  // namespace trimtab::bench::cuda
