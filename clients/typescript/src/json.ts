/** Any JSON value. Integers beyond 2^53 lose digits in JavaScript: give them as strings or bytes. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A value that Quire keeps exactly: bytes, or JSON, which is kept as its text. */
export type Value = Json | Uint8Array;

/** The field of a request that holds a value: `NAME` for JSON, `NAME_base64` for bytes. */
export function valueField(name: string, value: Value | undefined): Record<string, Json> {
  if (value === undefined) return {};
  return value instanceof Uint8Array ? { [`${name}_base64`]: base64(value) } : { [name]: value };
}

/** Bytes in base64. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}
