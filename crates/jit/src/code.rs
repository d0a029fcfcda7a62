//! Executable memory: Cranelift's module, its life and the signatures of compiled functions.

use std::sync::{Mutex, OnceLock, PoisonError};

use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Signature, UserFuncName, types};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, default_libcall_names};

use crate::JitError;

/// What a compiled function is called with.
#[repr(C)]
pub(crate) struct Call {
    /// Start of the page or record.
    pub base: *const u8,
    /// Its end.
    pub limit: *const u8,
    /// Offsets of the records.
    pub records: *const u16,
    /// Their number.
    pub count: usize,
    /// Filter: offsets of records that pass (`u16`). Evaluate: lanes.
    pub out: *mut u8,
    /// Filter: offsets of records that fail (`u16`). Evaluate: their positions (`u32`).
    pub failed: *mut u8,
    /// Evaluate: one byte per lane, 1 = not NULL. Not used if the program is never NULL.
    pub valid: *mut u8,
    /// Out: records that pass, or lanes that are NULL.
    pub out_count: usize,
    /// Out: records that fail.
    pub failed_count: usize,
}

/// A compiled function: 0, or 1 if a record does not keep to its shape.
pub(crate) type Entry = unsafe extern "C" fn(*mut Call) -> u64;

/// Memory of functions, executable once they are finished, freed on drop.
pub(crate) struct Code {
    /// `None` only while dropping. The lock makes the owner `Sync`; nobody waits for it.
    module: Mutex<Option<JITModule>>,
}

impl Code {
    fn module(&mut self) -> &mut JITModule {
        let module = self
            .module
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        module
            .as_mut()
            .expect("the module is there until the code is dropped")
    }
}

/// The host's instruction set, looked up once.
fn isa() -> Result<OwnedTargetIsa, JitError> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    ISA.get_or_init(|| {
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
        ] {
            flags.set(name, value).map_err(|e| e.to_string())?;
        }
        // The verifier is for the authors of this crate: its tests run in builds with assertions.
        let verify = if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        };
        flags
            .set("enable_verifier", verify)
            .map_err(|e| e.to_string())?;
        let host = cranelift_native::builder().map_err(str::to_string)?;
        host.finish(settings::Flags::new(flags))
            .map_err(|e| e.to_string())
    })
    .clone()
    .map_err(JitError::Machine)
}

/// Compiles functions into one module. What a failed compilation leaves is freed with it.
pub(crate) struct Builder {
    code: Code,
    context: Context,
    functions: FunctionBuilderContext,
}

impl Builder {
    pub(crate) fn new() -> Result<Self, JitError> {
        let module = JITModule::new(JITBuilder::with_isa(isa()?, default_libcall_names()));
        let context = module.make_context();
        let code = Code {
            module: Mutex::new(Some(module)),
        };
        Ok(Self {
            code,
            context,
            functions: FunctionBuilderContext::new(),
        })
    }

    /// Compiles one function whose body `generate` writes.
    pub(crate) fn define(
        &mut self,
        name: &str,
        generate: impl FnOnce(FunctionBuilder<'_>, TargetFrontendConfig) -> Result<(), JitError>,
    ) -> Result<FuncId, JitError> {
        let codegen = |e: ModuleError| JitError::Codegen(format!("{e:?}"));
        let module = self.code.module();
        let config = module.target_config();
        let mut signature = Signature::new(config.default_call_conv);
        signature.params.push(AbiParam::new(types::I64));
        signature.returns.push(AbiParam::new(types::I64));
        let id = module
            .declare_function(name, Linkage::Export, &signature)
            .map_err(codegen)?;
        self.context.func.signature = signature;
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        generate(
            FunctionBuilder::new(&mut self.context.func, &mut self.functions),
            config,
        )?;
        module
            .define_function(id, &mut self.context)
            .map_err(codegen)?;
        module.clear_context(&mut self.context);
        Ok(id)
    }

    /// Makes the functions executable.
    pub(crate) fn finish(mut self, ids: &[FuncId]) -> Result<(Code, Vec<Entry>), JitError> {
        let module = self.code.module();
        module
            .finalize_definitions()
            .map_err(|e| JitError::Codegen(format!("{e:?}")))?;
        let entries = ids
            .iter()
            .map(|&id| {
                let address = module.get_finalized_function(id);
                // SAFETY: the module compiled `id` with the signature of `Entry` in the host's
                // calling convention (`define`), and `Code` keeps the memory until it is dropped.
                unsafe { std::mem::transmute::<*const u8, Entry>(address) }
            })
            .collect();
        Ok((self.code, entries))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let module = self
            .module
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(module) = module {
            // SAFETY: the entries are private to the evaluator that owns this `Code`; it is being
            // dropped, so that no call is running and none will follow.
            unsafe { module.free_memory() }
        }
    }
}
