#include "nvtx_callbacks.hpp"

namespace trimtab::inject::nvtx {

namespace {

bool fill_module(const CallbacksTable& callbacks, Module module, const CallbackList& list) {
  FunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_function_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Callback* callback = list.begin; callback != list.end; ++callback) {
    // An older program's table is shorter: what it lacks it cannot call.
    if (callback->index < size && table[callback->index] != nullptr) *table[callback->index] = callback->function;
  }
  return true;
}

}  // namespace

bool attach(GetExportTable get_export_table) {
  if (get_export_table == nullptr) return false;
  const auto* callbacks = static_cast<const CallbacksTable*>(get_export_table(kTableCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbacksTable)) return false;
  const auto* version = static_cast<const VersionTable*>(get_export_table(kTableVersion));
  if (version != nullptr && version->struct_size >= sizeof(VersionTable)) version->set_injection_version(kVersion);
  const bool core = fill_module(*callbacks, kModuleCore, core_callbacks());
  const bool core2 = fill_module(*callbacks, kModuleCore2, core2_callbacks());
  return core || core2;
}

}  // namespace trimtab::inject::nvtx
