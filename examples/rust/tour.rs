//! mica from Rust, through its interface for C: rustc tour.rs -L native=LIB -l mica
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
union Value {
    tensor: *const c_void,
    integer: i64,
    number: f64,
    device: Device,
}

#[repr(C)]
struct Argument {
    name: *const c_char,
    kind: c_int,
    count: usize,
    value: Value,
}

extern "C" {
    fn mica_library_version() -> *const c_char;
    fn mica_last_error() -> *const c_char;
    fn mica_tensor_from_host(
        values: *const c_void,
        shape: *const i64,
        rank: c_int,
        dtype: c_int,
        device: Device,
        tensor: *mut *mut c_void,
    ) -> c_int;
    fn mica_tensor_to_host(tensor: *const c_void, values: *mut c_void, bytes: usize) -> c_int;
    fn mica_tensor_numel(tensor: *const c_void) -> i64;
    fn mica_tensor_free(tensor: *mut c_void);
    fn mica_tensor_set_requires_grad(tensor: *mut c_void, on: bool) -> c_int;
    fn mica_tensor_grad(tensor: *const c_void, grad: *mut *mut c_void) -> c_int;
    fn mica_backward(tensor: *const c_void, cotangent: *const c_void) -> c_int;
    fn mica_call(
        function: *const c_char,
        arguments: *const Argument,
        arguments_count: usize,
        results: *mut *mut c_void,
        count: *mut usize,
    ) -> c_int;
}

const F64: c_int = 0;
const TENSOR: c_int = 1;
const CPU: Device = Device { kind: 0, index: 0 };

/// The reason of a failure is the error of a Result.
fn checked(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(mica_last_error()) };
    Err(text.to_string_lossy().into_owned())
}

/// A handle that frees itself.
struct Tensor(*mut c_void);

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { mica_tensor_free(self.0) }
    }
}

impl Tensor {
    fn new(values: &[f64], shape: &[i64]) -> Result<Tensor, String> {
        assert_eq!(values.len() as i64, shape.iter().product::<i64>());
        let mut t = null_mut();
        checked(unsafe {
            let rank = shape.len() as c_int;
            mica_tensor_from_host(values.as_ptr().cast(), shape.as_ptr(), rank, F64, CPU, &mut t)
        })?;
        Ok(Tensor(t))
    }

    fn values(&self) -> Result<Vec<f64>, String> {
        let mut values = vec![0.0; unsafe { mica_tensor_numel(self.0) } as usize];
        let bytes = std::mem::size_of_val(values.as_slice());
        checked(unsafe { mica_tensor_to_host(self.0, values.as_mut_ptr().cast(), bytes) })?;
        Ok(values)
    }

    fn grad(&self) -> Result<Tensor, String> {
        let mut g = null_mut();
        checked(unsafe { mica_tensor_grad(self.0, &mut g) })?;
        Ok(Tensor(g))
    }
}

/// Any function of mica's list that takes tensors and gives one.
fn call(function: &str, operands: &[&Tensor]) -> Result<Tensor, String> {
    let name = CString::new(function).unwrap();
    let arguments: Vec<Argument> = operands
        .iter()
        .map(|t| Argument { name: null(), kind: TENSOR, count: 0, value: Value { tensor: t.0 } })
        .collect();
    let (mut result, mut count) = (null_mut(), 1);
    checked(unsafe {
        mica_call(name.as_ptr(), arguments.as_ptr(), arguments.len(), &mut result, &mut count)
    })?;
    Ok(Tensor(result))
}

fn main() -> Result<(), String> {
    // y = sum(relu(x w)), and its gradient for w.
    let x = Tensor::new(&[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
    let w = Tensor::new(&[-1.0, 1.0], &[2, 1])?;
    checked(unsafe { mica_tensor_set_requires_grad(w.0, true) })?;
    let y = call("sum", &[&call("relu", &[&call("matmul", &[&x, &w])?])?])?;
    checked(unsafe { mica_backward(y.0, null()) })?;
    assert_eq!(y.values()?, [2.0]);
    assert_eq!(w.grad()?.values()?, [4.0, 6.0]);

    // What is wrong is told in words.
    let reason = call("matmul", &[&x, &Tensor::new(&[1.0; 3], &[3, 1])?]).err().unwrap();
    assert!(reason.contains("matmul"), "{reason}");
    let version = unsafe { CStr::from_ptr(mica_library_version()) };
    println!("mica {} from Rust; an error: {reason}", version.to_string_lossy());
    Ok(())
}
