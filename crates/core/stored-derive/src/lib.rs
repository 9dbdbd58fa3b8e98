//! `#[derive(Stored)]`, for the crate `stored`, which describes the format.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Ident, Token, parenthesized, parse_quote};

/// Writes a structure field by field in the order of its definition, and of an enum a byte for the variant and
/// then its fields.
///
/// - `#[stored(since(7, value))]` at a field: it came with version 7, and is `value` when older bytes are read.
/// - `#[stored(order(first, second))]` at a structure: its fields are written in this order, which names each of them
///   once, since they lie in another one in memory.
/// - `#[stored(number = 3)]` at a variant: its byte; those behind it go on from there. The first one is 0.
#[proc_macro_derive(Stored, attributes(stored))]
pub fn stored(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implementation(input).unwrap_or_else(Error::into_compile_error).into()
}

fn implementation(mut input: DeriveInput) -> Result<TokenStream, Error> {
    let name = input.ident;
    // A number with a unit is stored as the number. What is read goes to its place at once, where it can.
    let is_new_type = matches!(&input.data, Data::Struct(data) if data.fields.len() == 1);
    let inline = is_new_type.then(|| quote!(#[inline]));
    let (store, restore, layout) = match &input.data {
        Data::Struct(data) => {
            let parts = Parts::of(&data.fields, Attributes::of(&input.attrs)?.order.as_deref())?;
            let Parts { pattern, store, restore, layout } = parts;
            (quote!(let Self #pattern = self; #store), quote!(Ok(Self #restore)), layout)
        }
        Data::Enum(data) => {
            let (mut stores, mut restores, mut layouts) = (Vec::new(), Vec::new(), Vec::new());
            let mut next = 0;
            for variant in &data.variants {
                let number = Attributes::of(&variant.attrs)?.number.unwrap_or(next);
                next = number.saturating_add(1);
                let (byte, of, title) =
                    (Literal::u8_suffixed(number), &variant.ident, format!("{number} {}", variant.ident));
                let Parts { pattern, store, restore, layout } = Parts::of(&variant.fields, None)?;
                stores.push(quote!(Self::#of #pattern => { ::stored::Stored::store(&#byte, out); #store }));
                restores.push(quote!(#byte => Ok(Self::#of #restore),));
                layouts.push(quote!(layouts.variant(#title); #layout));
            }
            let text = name.to_string();
            let restore = quote!(
                let at = from.at();
                match from.value::<u8>()? { #(#restores)* _ => Err(::stored::Reader::senseless(at, #text)) }
            );
            (quote!(match self { #(#stores)* }), restore, quote!(#(#layouts)*))
        }
        Data::Union(_) => return Err(Error::new(name.span(), "a union cannot be stored")),
    };
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::stored::Stored));
    }
    let (impls, types, wheres) = input.generics.split_for_impl();
    let text = name.to_string();
    Ok(quote! {
        #[automatically_derived]
        impl #impls ::stored::Stored for #name #types #wheres {
            #inline
            fn store(&self, out: &mut ::stored::Writer) {
                let _ = &out;
                #store
            }
            #[inline]
            fn restore(from: &mut ::stored::Reader<'_>) -> Result<Self, ::stored::StoredError> {
                let _ = &from;
                #restore
            }
            fn layout(layouts: &mut ::stored::Layouts) {
                layouts.of::<Self>(#text, |layouts| { let _ = &layouts; #layout });
            }
        }
    })
}

/// Pieces of the implementation for the fields of a structure or a variant.
struct Parts {
    pattern: TokenStream,
    store: TokenStream,
    restore: TokenStream,
    layout: TokenStream,
}

impl Parts {
    /// Those of `fields`, in their order of definition unless another one is said.
    fn of(fields: &Fields, order: Option<&[Ident]>) -> Result<Self, Error> {
        let (mut members, mut bindings, mut reads, mut layout) =
            (Vec::new(), Vec::new(), Vec::new(), TokenStream::new());
        for (at, Field { attrs, ident, ty, .. }) in in_order(fields, order)?.into_iter().enumerate() {
            let since = Attributes::of(attrs)?.since;
            let title = ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
            let title =
                since.as_ref().map_or(title.clone(), |(version, _)| format!("{title} since {version}"));
            reads.push(match since {
                Some((version, before)) => {
                    quote!(if from.version() >= #version { from.value()? } else { #before })
                }
                None => quote!(from.value()?),
            });
            layout.extend(quote!(layouts.value::<#ty>(#title);));
            members.push(ident.clone());
            bindings.push(format_ident!("field_{at}"));
        }
        let (pattern, restore) = match fields {
            Fields::Named(_) => (quote!({ #(#members: #bindings),* }), quote!({ #(#members: #reads),* })),
            Fields::Unnamed(_) => (quote!(( #(#bindings),* )), quote!(( #(#reads),* ))),
            Fields::Unit => (TokenStream::new(), TokenStream::new()),
        };
        Ok(Self { pattern, store: quote!(#(::stored::Stored::store(#bindings, out);)*), restore, layout })
    }
}

fn in_order<'a>(fields: &'a Fields, order: Option<&[Ident]>) -> Result<Vec<&'a Field>, Error> {
    let Some(order) = order else { return Ok(fields.iter().collect()) };
    let find = |name: &Ident| {
        let found = fields.iter().find(|field| field.ident.as_ref() == Some(name));
        found.ok_or_else(|| Error::new(name.span(), "no field is called so"))
    };
    let found = order.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let is_missing = |field: &&Field| !order.iter().any(|name| field.ident.as_ref() == Some(name));
    match fields.iter().find(is_missing) {
        Some(field) => Err(Error::new_spanned(field, "its place in `order(…)` is missing")),
        None if found.len() > fields.len() => {
            Err(Error::new_spanned(fields, "`order(…)` names a field twice"))
        }
        None => Ok(found),
    }
}

/// Content of `#[stored(…)]`.
#[derive(Default)]
struct Attributes {
    number: Option<u8>,
    /// Version, and the value before it.
    since: Option<(Literal, TokenStream)>,
    /// Fields of a structure as they are written.
    order: Option<Vec<Ident>>,
}

impl Attributes {
    fn of(attributes: &[Attribute]) -> Result<Self, Error> {
        let found = attributes.iter().find(|attribute| attribute.path().is_ident("stored"));
        found.map_or_else(|| Ok(Self::default()), Attribute::parse_args)
    }
}

impl Parse for Attributes {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let key: Ident = input.parse()?;
        if key == "number" {
            input.parse::<Token![=]>()?;
            let number = input.parse::<syn::LitInt>()?.base10_parse()?;
            return Ok(Self { number: Some(number), ..Self::default() });
        }
        if key == "since" {
            let inner;
            parenthesized!(inner in input);
            let version = inner.parse()?;
            inner.parse::<Token![,]>()?;
            return Ok(Self { since: Some((version, inner.parse()?)), ..Self::default() });
        }
        if key == "order" {
            let inner;
            parenthesized!(inner in input);
            let names = inner.parse_terminated(Ident::parse, Token![,])?;
            return Ok(Self { order: Some(names.into_iter().collect()), ..Self::default() });
        }
        Err(Error::new(key.span(), "none of `since(VERSION, VALUE)`, `number = BYTE` and `order(FIELD, …)`"))
    }
}
